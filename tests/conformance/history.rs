//! The history of the work, the counts of jobs and who counts them.

use std::time::{Duration, Instant};

use diesel_jobs::operator::Depth;
use diesel_jobs::operator::history::{Bins, FOLDS, Fold, HistoryBatch, HistoryRow, KindRate, WorkCounts, WorkFilter};
use diesel_jobs::{Database, JobId, NewJob};
use diesel_jobs_core::{Events, EventsSince, Happened, Keep, Transition};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use uuid::Uuid;

use crate::bench::*;
use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn counts(completed: u64, discarded: u64, millis: &[u64]) -> WorkCounts {
    let mut counts = WorkCounts { completed, discarded, ..WorkCounts::default() };
    millis.iter().for_each(|ms| counts.record(Duration::from_millis(*ms), Duration::from_millis(ms * 10)));
    counts
}

fn row(queue: &str, kind: &str, counts: WorkCounts) -> HistoryRow {
    HistoryRow { queue: queue.to_owned(), kind: kind.to_owned(), counts }
}

fn before(ago: Duration) -> Instant {
    Instant::now().checked_sub(ago).unwrap_or_else(|| panic!("this machine has not run for {ago:?}"))
}

/// The middle of the minute that was three minutes ago.
fn three_minutes_ago() -> Instant {
    before(Duration::from_secs(150 + u64::from(chrono::Timelike::second(&chrono::Utc::now()))))
}

/// Stores rows of the minute that was this long ago.
async fn record(db: &Database, ago: Duration, rows: Vec<HistoryRow>) -> HistoryBatch {
    record_at(db, before(ago), rows).await
}

async fn record_at(db: &Database, middle: Instant, rows: Vec<HistoryRow>) -> HistoryBatch {
    let batch = HistoryBatch { id: Uuid::now_v7(), middle, rows };
    db.storage.record_history(&batch).await.unwrap();
    batch
}

/// Makes all rows this much older.
async fn age<F: Fixture>(f: &F, by: Duration) {
    let sql = match f.database().storage.name() {
        "SQLite" => format!("update jobs_history set at = at - {}", by.as_micros()),
        _ => format!("update jobs.history set at = at - make_interval(secs => {})", by.as_secs()),
    };
    f.client().await.execute(&sql).await.unwrap();
}

async fn number_of_rows<F: Fixture>(f: &F, minutes: i16) -> i64 {
    let table = F::table("history");
    f.client().await.number(&format!("select count(*) as number from {table} where minutes = {minutes}")).await
}

pub(crate) async fn a_minute_is_stored_once_and_shown_in_its_step<F: Fixture>(f: F) {
    let db = f.database();
    let rows = vec![
        row("q", "a", counts(3, 1, &[1, 2, 40])),
        row("q", "b", counts(5, 0, &[7])),
        row("r", "a", counts(2, 0, &[])),
    ];
    let minute = three_minutes_ago();
    let batch = record_at(db, minute, rows).await;
    db.storage.record_history(&batch).await.unwrap();
    assert_eq!(number_of_rows(&f, 1).await, 3, "a repeated batch is not stored again");
    record_at(db, minute, vec![row("q", "a", counts(10, 0, &[1]))]).await;

    let points = db.operator.series(HOUR, MINUTE, &WorkFilter::default()).await.unwrap();
    assert_eq!(points.len(), 60);
    let at: Vec<usize> = (0..60).filter(|step| points[*step].work.completed > 0).collect();
    assert!(at == [57] || at == [56], "two or three whole minutes ago: {at:?}");
    let work = &points[at[0]].work;
    assert_eq!((work.completed, work.discarded, points[at[0]].seconds), (20, 1, 60.0));
    let wait = work.wait.unwrap();
    assert!((0.0009..0.003).contains(&wait.p50) && (0.028..0.06).contains(&wait.p99), "{wait:?}");
    assert!((wait.mean - 0.051 / 5.0).abs() < 1e-9 && (work.run.unwrap().mean - 0.102).abs() < 1e-9, "{work:?}");

    let only = |queue: Option<&str>, kinds: &[&str]| WorkFilter {
        queue: queue.map(str::to_owned),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
    };
    for (filter, completed) in [
        (only(Some("q"), &[]), 18),
        (only(Some("q"), &["b"]), 5),
        (only(Some("q"), &["b", "a", "c"]), 18),
        (only(None, &["a"]), 15),
        (only(Some("r"), &[]), 2),
        (only(Some("s"), &[]), 0),
    ] {
        let points = db.operator.series(24 * HOUR, HOUR / 4, &filter).await.unwrap();
        assert_eq!(points.iter().map(|point| point.work.completed).sum::<u64>(), completed, "{filter:?}");
    }
    let rates = db.operator.rates(10 * MINUTE).await.unwrap();
    let named: Vec<_> = rates.iter().map(|rate| (&*rate.queue, &*rate.kind, rate.work.completed)).collect();
    assert_eq!(named, [("q", "a", 13), ("q", "b", 5), ("r", "a", 2)]);
    assert!((rates[0].completed_per_minute() - 1.3).abs() < 1e-9);
    assert_eq!(db.operator.rates(MINUTE).await.unwrap(), [], "it was longer ago");
    // The same numbers without waits and runs, and by queue.
    let mut outcomes = rates.clone();
    outcomes.iter_mut().for_each(|rate| (rate.work.wait, rate.work.run) = (None, None));
    assert_eq!(db.operator.outcomes(10 * MINUTE).await.unwrap(), outcomes);
    let queues = ["q", "r", "s"].map(str::to_owned);
    let of_queues = db.operator.queue_rates(&queues, HOUR, MINUTE).await.unwrap();
    let sums: Vec<_> = of_queues
        .iter()
        .map(|rates| {
            (rates.queue.as_str(), rates.completed_per_minute.len(), rates.completed_per_minute.iter().sum::<f64>())
        })
        .collect();
    assert_eq!(sums, [("q", 60, 18.0), ("r", 60, 2.0)]);
    assert_eq!(of_queues[0].completed_per_minute[at[0]], 18.0);
    // Steps begin at whole multiples of their length. In an odd minute the first and the last of them are halves.
    let of_two_minutes = db.operator.queue_rates(&queues[1..2], HOUR, 2 * MINUTE).await.unwrap();
    assert!(matches!(of_two_minutes[0].completed_per_minute.len(), 30 | 31), "{of_two_minutes:?}");
    assert!(db.operator.series(HOUR, Duration::from_secs(1), &WorkFilter::default()).await.is_err());
}

pub(crate) async fn old_rows_are_joined_and_pruned<F: Fixture>(f: F) {
    let db = f.database();
    for minute in 0..20 {
        record(db, minute * MINUTE, vec![row("q", "a", counts(1, 0, &[5])), row("q", "b", counts(0, 2, &[]))]).await;
    }
    let [quarters, hours] = FOLDS;
    assert_eq!(db.storage.fold_history(quarters, 100).await.unwrap(), 0, "they are too young");
    age(&f, 3 * HOUR).await;
    // The limit is less than the rows of a quarter of an hour, so its row is made in several steps.
    while db.storage.fold_history(quarters, 7).await.unwrap() > 0 {}
    assert_eq!((number_of_rows(&f, 1).await, number_of_rows(&f, 60).await), (0, 0));
    assert!((4..=6).contains(&number_of_rows(&f, 15).await), "two kinds in two or three quarters");
    age(&f, 49 * HOUR).await;
    while db.storage.fold_history(hours, 100).await.unwrap() > 0 {}
    assert_eq!(number_of_rows(&f, 15).await, 0);
    assert!((2..=4).contains(&number_of_rows(&f, 60).await), "two kinds in one or two hours");
    let rates = db.operator.rates(7 * 24 * HOUR).await.unwrap();
    let named: Vec<_> = rates.iter().map(|rate| (&*rate.kind, rate.work.completed, rate.work.discarded)).collect();
    assert_eq!(named, [("a", 20, 0), ("b", 0, 40)]);
    assert_eq!(rates[0].work.run.map(|run| (run.mean * 1000.0).round()), Some(50.0));

    assert_eq!(db.storage.prune_history(100 * HOUR, 100).await.unwrap(), 0);
    let mut pruned = 0;
    while let n @ 1.. = db.storage.prune_history(50 * HOUR, 1).await.unwrap() {
        assert_eq!(n, 1);
        pruned += n;
    }
    assert!((2..=4).contains(&pruned) && number_of_rows(&f, 60).await == 0);
}

/// Rows of a few kinds, minutes and workers.
fn any_rows() -> impl Strategy<Value = Vec<(u64, HistoryRow)>> {
    let counts =
        (0..9_u64, 0..9_u64, 0..9_u64, prop::collection::vec(0..100_000_u64, 0..6)).prop_map(|(a, b, c, waits)| {
            let mut counts = WorkCounts {
                completed: a,
                retried: b,
                discarded: b % 2,
                cancelled: c,
                snoozed: a % 3,
                ..WorkCounts::default()
            };
            waits.iter().for_each(|ms| counts.record(Duration::from_millis(*ms), Duration::from_millis(ms / 3)));
            counts
        });
    let row = (0..150_u64, 0..2_u8, 0..3_u8, counts);
    prop::collection::vec(
        row.prop_map(|(minute, queue, kind, counts)| {
            (minute, HistoryRow { queue: format!("q{queue}"), kind: format!("k{kind}"), counts })
        }),
        1..40,
    )
}

/// The sums of everything that is stored. Means are sums of floating-point numbers, which depend on their order a
/// little.
async fn sums(db: &Database) -> Vec<String> {
    let quantiles = |quantiles: Option<diesel_jobs::operator::history::Quantiles>| {
        quantiles.map(|q| format!("{:.6} {:.6} {:.6} {:.3}", q.p50, q.p95, q.p99, q.mean * 1.000_001))
    };
    let rates = db.operator.rates(1000 * HOUR).await.unwrap();
    let row = |KindRate { queue, kind, work, .. }: KindRate| {
        let (wait, run) = (quantiles(work.wait), quantiles(work.run));
        let outcomes = [work.completed, work.retried, work.discarded, work.cancelled, work.snoozed];
        format!("{queue} {kind} {outcomes:?} {wait:?} {run:?}")
    };
    rates.into_iter().map(row).collect()
}

pub(crate) async fn folding_changes_no_sum<F: Fixture>(f: F) {
    let db = f.database();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..6 {
        let rows = any_rows().new_tree(&mut runner).unwrap().current();
        for (minute, row) in rows {
            record(db, MINUTE + Duration::from_secs(60 * minute % 3000), vec![row]).await;
        }
        let before = sums(db).await;
        age(&f, 50 * HOUR).await;
        for (from_minutes, to_minutes, limit) in [(1, 15, 3), (1, 15, 1000), (15, 60, 2), (15, 60, 1000)] {
            let fold = Fold { from_minutes, to_minutes, after: HOUR };
            db.storage.fold_history(fold, limit).await.unwrap();
            assert_eq!(sums(db).await, before, "after {fold:?}");
        }
    }
    while db.storage.fold_history(FOLDS[0], 100).await.unwrap() + db.storage.fold_history(FOLDS[1], 100).await.unwrap()
        > 0
    {}
    assert_eq!(number_of_rows(&f, 1).await + number_of_rows(&f, 15).await, 0);
}

/// Counts the jobs as soon as it is somebody's turn.
async fn sample_now<F: Fixture>(f: &F) {
    let sql = format!("update {} set next_at = {}", F::table("sample"), F::EPOCH);
    f.client().await.execute(&sql).await.unwrap();
    assert_eq!(f.database().storage.count_jobs().await.unwrap().rows, 1);
}

pub(crate) async fn one_worker_at_a_time_counts_all_jobs<F: Fixture>(f: F) {
    let (db, other) = (f.database(), f.again().await);
    assert_eq!(db.operator.sample().await.unwrap(), None);
    enqueue(&f, NewJob::raw("a", "{}")).await;
    enqueue(&f, with(|job| job.queue = "mail".into())).await;
    // Both try at once, on a database in which nobody has counted yet.
    let (one, two) = tokio::join!(db.storage.count_jobs(), other.storage.count_jobs());
    let (one, two) = (one.unwrap(), two.unwrap());
    let counted = [&one, &two].map(|done| done.rows == 1);
    assert!(counted[0] ^ counted[1], "{one:?} {two:?}");
    let waits = [one.next.unwrap(), two.next.unwrap()];
    let sample = other.operator.sample().await.unwrap().unwrap();
    // A turn is reserved for 120 s. After it, all workers rest a hundred times as long as the count took. Who waits may
    // have read the clock before the turn was reserved.
    let longest = Duration::from_secs_f64((100.0 * sample.took_seconds).max(240.0));
    assert!(waits.iter().all(|wait| *wait > Duration::ZERO && *wait <= longest), "{waits:?} {sample:?}");
    let kinds: Vec<_> = sample.kinds.iter().map(|kind| (&*kind.queue, &*kind.kind, kind.available)).collect();
    assert_eq!(kinds, [("default", "a", 1), ("mail", "a", 1)]);
    assert!(sample.age_seconds.unwrap() < 600.0 && sample.resting.is_none(), "{sample:?}");

    assert_eq!(db.storage.count_jobs().await.unwrap().rows, 0, "it was counted a moment ago");
    let ahead = format!("update {} set next_at = {}", F::table("sample"), F::YEAR_AHEAD);
    f.client().await.execute(&ahead).await.unwrap();
    assert_eq!(db.storage.count_jobs().await.unwrap().rows, 1, "the clock has gone back");
    let worker = worker(db).await;
    let jobs = claim(db, worker, 1).await;
    sample_now(&f).await;
    let sample = db.operator.sample().await.unwrap().unwrap();
    let running: i64 = sample.kinds.iter().map(|kind| kind.running).sum();
    assert_eq!((running, jobs.len()), (1, 1));
}

pub(crate) async fn depths_are_exact_up_to_ten_thousand_and_marked_above<F: Fixture>(f: F) {
    let db = f.database();
    let insert = |jobs: u32, priority: i16, queue: &str, later: bool| match db.storage.name() {
        "SQLite" => format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {jobs})
             insert into jobs_job (kind, queue, priority, args, run_at) select 'a', '{queue}', {priority}, '{{}}',
                 (cast(round(unixepoch('subsec') * 1000) as integer) * 1000) + {} from n",
            if later { 3_600_000_000_i64 } else { -5_000_000 }
        ),
        _ => format!(
            "insert into jobs.ready (kind, queue, priority, args, run_at)
             select 'a', '{queue}', {priority}, json_build_object('text', repeat('x', 700)),
                 now() + interval '{}' from generate_series(1, {jobs})",
            if later { "1 hour" } else { "-5 s" }
        ),
    };
    let mut client = f.client().await;
    for sql in [
        insert(6000, 0, "big", false),
        insert(3999, 7, "big", false),
        insert(12_000, -1, "big", true),
        insert(2, 0, "mail", true),
    ] {
        client.execute(&sql).await.unwrap();
    }
    let depth = |jobs, is_exact| Depth { jobs, is_exact };
    let stats = db.operator.stats().await.unwrap();
    let [big, mail] = &stats.queues[..] else { panic!("{stats:?}") };
    assert_eq!((&*big.queue, big.available, &*mail.queue), ("big", depth(9999, true), "mail"));
    assert_eq!((mail.available, mail.later, mail.oldest_wait_seconds), (depth(0, true), depth(2, true), None));
    assert!((4.0..60.0).contains(&big.oldest_wait_seconds.unwrap()), "{big:?}");
    assert_eq!((big.oldest, mail.oldest), (Some(JobId(1)), None));
    assert_eq!((big.later.is_exact, big.later.jobs), (false, 10_000), "nobody has counted all jobs yet: {big:?}");
    assert_eq!((stats.counted.now, stats.counted.age_seconds, &stats.kinds[..]), (false, None, &[][..]));
    assert_eq!(db.storage.count_jobs().await.unwrap().rows, 1);

    client.execute(&insert(11_000, 0, "big", false)).await.unwrap();
    let stats = db.operator.stats().await.unwrap();
    assert!(!stats.queues[0].available.is_exact);
    assert!(!stats.unfinished().is_exact && stats.unfinished().jobs >= 20_000, "{stats:?}");
    // The tables are not small, so the kinds and the estimates come from the last count.
    let kinds: i64 = stats.kinds.iter().map(|kind| kind.available).sum();
    assert_eq!((kinds, stats.queues[0].later.jobs, stats.counted.now), (9999, 12_000, false));
    assert!(stats.counted.age_seconds.unwrap() < 60.0);
    assert_eq!(stats.queues[0].available.jobs, 10_000, "a queue that was not long at the last count is counted");

    // Now it is long at the last count, so only its first jobs are counted.
    client.execute(&format!("update {} set next_at = {}", F::table("sample"), F::EPOCH)).await.unwrap();
    assert_eq!(db.storage.count_jobs().await.unwrap().rows, 1);
    let available = async || db.operator.stats().await.unwrap().queues[0].available;
    assert_eq!(available().await, Depth { jobs: 20_999, is_exact: false });
    let ready = if F::TABLES.contains(&"ready") { F::table("ready") } else { F::table("job") };
    let due = format!("from {ready} where queue = 'big' and priority >= 0");
    client.execute(&format!("delete {due} and id not in (select id {due} limit 99)")).await.unwrap();
    assert_eq!(available().await, Depth { jobs: 99, is_exact: true }, "few jobs are counted in every queue");
}

pub(crate) async fn leased_jobs_are_listed_with_their_worker<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let first = claimed(&f, worker, job()).await;
    let second = claimed(&f, worker, job()).await;
    let running = db.operator.leased(None, 10).await.unwrap();
    let listed: Vec<_> = running.iter().map(|job| (job.id, &*job.queue, job.attempt, job.worker)).collect();
    assert_eq!(listed, [(first.lease.job, "default", 1, worker), (second.lease.job, "default", 1, worker)]);
    assert!(running.iter().all(|job| (0.0..60.0).contains(&job.seconds)), "{running:?}");
    assert_eq!(db.operator.leased(None, 1).await.unwrap().len(), 1);
    let (table, other) =
        (if F::TABLES.contains(&"ready") { F::table("running") } else { F::table("job") }, second.lease.job);
    f.client().await.execute(&format!("update {table} set queue = 'mail' where id = {other}")).await.unwrap();
    let of =
        async |queue| db.operator.leased(Some(queue), 10).await.unwrap().iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!((of("mail").await, of("default").await.len(), of("none").await.len()), (vec![other], 1, 0));
    let queues = db.operator.stats().await.unwrap().queues;
    assert_eq!(queues.iter().map(|queue| queue.running).sum::<i64>(), 2);
}

pub(crate) async fn bins_of_many_workers_are_added<F: Fixture>(f: F) {
    let db = f.database();
    let mut expected = Bins::default();
    for worker in 0..5_u64 {
        let waits: Vec<u64> = (0..50).map(|i| i * (worker + 1)).collect();
        waits.iter().for_each(|ms| expected.record(Duration::from_millis(*ms)));
        record(db, 2 * MINUTE, vec![row("q", "a", counts(1, 0, &waits))]).await;
    }
    let rates = db.operator.rates(10 * MINUTE).await.unwrap();
    let wait = rates[0].work.wait.unwrap();
    let quantiles = [wait.p50, wait.p95, wait.p99].map(Some);
    assert_eq!(quantiles, [0.5, 0.95, 0.99].map(|share| expected.quantile(share)));
}

pub(crate) async fn events_are_read_from_where_the_last_reading_ended<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let before = claimed(&f, worker, job()).await;
    assert!(finish(db, &before, DONE).await);
    let failed_before = claimed(&f, worker, job()).await;
    assert!(finish(db, &failed_before, Transition::Retry { delay: HOUR, failure: failure("early") }).await);
    let first = db.operator.events(&EventsSince::default()).await.unwrap();
    assert!(first.events.is_empty() && first.next.keeps.contains(&(HOUR.as_micros() as i64)), "{first:?}");
    let mut since = first.next;
    // The clock of SQLite has milliseconds.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let jobs = [claimed(&f, worker, job()).await, claimed(&f, worker, job()).await, claimed(&f, worker, job()).await];
    let forever = claimed(&f, worker, job()).await;
    let started = db.operator.events(&since).await.unwrap();
    let named = |events: &Events| -> Vec<(JobId, Happened)> {
        let mut named: Vec<_> = events.events.iter().map(|event| (event.id, event.event)).collect();
        named.sort();
        named
    };
    let ids = [jobs[0].lease.job, jobs[1].lease.job, jobs[2].lease.job, forever.lease.job];
    assert_eq!(named(&started), ids.map(|id| (id, Happened::Started)));
    since = started.next;
    let failed = || failure("no answer");
    assert!(finish(db, &jobs[0], DONE).await);
    assert!(finish(db, &jobs[1], Transition::Retry { delay: HOUR, failure: failed() }).await);
    assert!(finish(db, &jobs[2], Transition::Discard { failure: failed(), keep: Keep::For(3 * HOUR) }).await);
    assert!(finish(db, &forever, Transition::Complete(Keep::Forever)).await);
    let ended = db.operator.events(&since).await.unwrap();
    let kinds = [Happened::Completed, Happened::Retried, Happened::Discarded, Happened::Completed];
    assert_eq!(named(&ended), ids.into_iter().zip(kinds).collect::<Vec<_>>());
    let of = |id| ended.events.iter().find(|event| event.id == id).unwrap();
    assert_eq!((of(ids[1]).message.as_deref(), of(ids[2]).message.as_deref()), (Some("no answer"), Some("no answer")));
    assert_eq!((of(ids[0]).worker, of(ids[0]).attempt, &of(ids[0]).message), (Some(worker), 1, &None));
    // An event that is read again has the same key. So it can be distinguished from new events.
    let again = db.operator.events(&ended.next).await.unwrap();
    assert!(again.events.iter().all(|event| ended.events.iter().any(|old| old.key() == event.key())), "{again:?}");
}
