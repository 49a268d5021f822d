//! Sequences: all jobs are in sequences, while workers are killed and suspended, the server crashes, and transactions
//! commit late.
//!
//! A job starts after the one before it has ended, in the order of the ids. A halted sequence waits until it is
//! skipped. A job that waits for its next attempt keeps its permit. At the end all jobs have ended, and no permit or
//! nudge is left.

mod order;
mod skipping;

use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use torture::checker::Promise;
use torture::history::{CRASH, Enqueued, fault};
use torture::workload::{Application, EnqueueCall, Shape, Work, disturb};

use super::fixture::{Fixture, History, Size, number};
use super::fleet::Fleet;
use super::limits::switch_sweep_off;
use super::run::Run;
use super::suspended::{HEIR_MILLIS, Suspended};
use super::watch::Watch;
use order::Order;
use skipping::Skipping;

const SHORT: Size = Size { jobs: 800, faults: 14 };
const LONG: Size = Size { jobs: 8_000, faults: 140 };
const WORKERS: usize = 4;
const DRAINED: Duration = Duration::from_secs(120);
const CALM_MILLIS: std::ops::Range<u64> = 150..550;
/// After this many kills the server crashes.
const KILLS_PER_CRASH: usize = 7;
/// Each producer has sequences of its own, so their jobs are committed in the order of their ids. The transactions of
/// the other sequences overtake each other.
const PRODUCERS: i64 = 4;
const OWN: i64 = 8;
const SHARED: i64 = 4;
/// The names of both sorts.
const IN_ORDER: &str = "orders";
const OVERTAKEN: &str = "returns";
/// The first jobs of the first sequences are those of the worker that is suspended.
const ZOMBIES_JOBS: i64 = 16;
/// The range of job numbers of one producer.
const EACH: i64 = 1_000_000;

/// How long the next job of a sequence may wait for a pass of admission. Without a nudge it would wait for ever, so the
/// time can be long enough for a machine on which all workers are just starting.
const FREE: Duration = Duration::from_secs(8);
/// Passes of admission do not search the sequences in turns.
const NO_SWEEP: (&str, &str) = (
    "> (place.after_sequence, place.after_sequence_key)",
    "> (place.after_sequence, place.after_sequence_key) and false",
);
/// What the [`Watch`] looks for.
const LOOK: &str = "with live as (
    select id, rules #>> '{0,name}' as name, rules #>> '{0,key}' as key from jobs.ready where rules is not null
    union all
    select id, rules #>> '{0,name}', rules #>> '{0,key}' from jobs.running where rules is not null
), turn as (
    select h.limit_name, h.limit_key, min(h.id) as id from jobs.held h
    where not exists (
        select from jobs.permit s where s.limit_name = h.limit_name and s.limit_key = h.limit_key and s.job_id <> h.id
    ) group by h.limit_name, h.limit_key
)
select 'two jobs of a sequence at once', name || key, count(*)::text from live group by name, key having count(*) > 1
union all
select 'two permits of a sequence', limit_name || limit_key, count(*)::text from jobs.permit group by limit_name, limit_key having count(*) > 1
union all
select 'a job without a permit', name || key, id::text from live l where not exists (select from jobs.permit s where s.job_id = l.id)
union all
select 'a job without a permit between two attempts', limit_name || limit_key, id::text from jobs.held h
where lease > 0 and not exists (select from jobs.permit s where s.job_id = h.id)
union all
select 'a permit without a job', limit_name || limit_key, job_id::text from jobs.permit s
where halted_at is null and not exists (select from live l where l.id = s.job_id) and not exists (select from jobs.held h where h.id = s.job_id)
union all
select 'free', h.limit_name || h.limit_key, h.id::text || ' ' || h.lease::text from turn t join jobs.held h on h.id = t.id
where h.run_at < clock_timestamp()";
/// What must be gone at the end.
const LEFT: &str =
    "select (select count(*) from jobs.held) + (select count(*) from jobs.permit) + (select count(*) from jobs.nudge)";

pub(super) async fn run(fixture: &Fixture<'_>) -> Result<Run> {
    let size = fixture.size(SHORT, LONG);
    switch_sweep_off(&fixture.connect().await?, NO_SWEEP).await?;
    let first =
        |number| Work::new(number, Shape::Async).and_later(HEIR_MILLIS).ordered(IN_ORDER, number - 1, number % 2 == 0);
    let mut zombie =
        Suspended::with(fixture, &fixture.connect().await?, (1..=ZOMBIES_JOBS).map(first).collect()).await?;
    // A job may be in any number of kills, and must still run.
    let args = ["--slots", "16", "--poll-interval", "200ms", "--max-crashes", "1000"];
    let mut fleet = Fleet::start(fixture, fixture.worker_url(), History::Durable, &args, WORKERS).await?;
    let watch = Watch::start(fixture, LOOK, FREE);
    let skipping = Skipping::start(fixture);
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        let seed = fixture.seed.wrapping_mul(1_000).wrapping_add(producer.unsigned_abs());
        producers.spawn(produce(fixture.url(), seed, producer, size.jobs / usize::try_from(PRODUCERS)?));
    }
    let mut rng = StdRng::seed_from_u64(fixture.seed);
    let mut crashes = 0;
    for kill in 1..=size.faults {
        tokio::time::sleep(Duration::from_millis(rng.random_range(CALM_MILLIS))).await;
        fleet.kill(rng.random_range(0..WORKERS), &fixture.connect().await?).await?;
        zombie.wake_when_due()?;
        if kill == size.faults {
            zombie.wake().await?;
        }
        if kill % KILLS_PER_CRASH == 0 && zombie.is_awake() {
            // A worker that starts without a server ends with an error.
            fleet.at_work().await?;
            fault(&fixture.connect().await?, CRASH, None).await?;
            fixture.cluster.crash()?;
            fixture.cluster.restart()?;
            crashes += 1;
        }
    }
    let mut ledger = zombie.ledger();
    while let Some(produced) = producers.join_next().await {
        ledger.extend(produced??);
    }
    let drained = fixture.at_rest(DRAINED).await?;
    let found = watch.stop().await?;
    let halts = skipping.stop().await?;
    let conn = fixture.connect().await?;
    let left = number(&conn, LEFT).await?;
    let order = Order::load(&conn).await?;
    let dead = fleet.dead()?;
    let promise = Promise { claims_may_be_forgotten: true, ..Promise::default() };
    let mut run = Run::check(fixture, &ledger, promise).await?;
    run.load = format!(
        "{}, {} sequences, {WORKERS} workers x 16 slots, {} halts, {} looks",
        run.load,
        PRODUCERS * OWN + SHARED,
        halts.len(),
        found.looks
    );
    run.faults = size.faults + crashes + 1;
    run.expect(drained, || format!("not drained {DRAINED:?} after the last fault"));
    run.expect(dead.is_empty(), || format!("nobody killed processes {dead:?}, and they are gone"));
    run.expect(found.looks > 50, || format!("only {} looks at the permits: nothing was tested", found.looks));
    run.expect(left == 0, || format!("{left} held jobs, permits or nudges are left"));
    run.complaints.extend(found.complaints);
    run.complaints.extend(order.complaints(IN_ORDER, OVERTAKEN));
    run.complaints.extend(order.halted_in_vain(&halts));
    if drained {
        fleet.stop().await?;
    }
    Ok(run)
}

/// Enqueues the jobs of one producer.
async fn produce(url: String, seed: u64, producer: i64, jobs: usize) -> Result<Vec<Enqueued>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut application = Application::new(url);
    let (mut next, mut enqueued) = (producer * EACH + ZOMBIES_JOBS, 0);
    while enqueued < jobs {
        let works: Vec<Work> = (0..rng.random_range(1..=5))
            .map(|_| {
                next += 1;
                work(&mut rng, producer, next)
            })
            .collect();
        // Most transactions commit at once, some late, and some not at all.
        let late = Duration::from_millis(if rng.random_bool(0.5) { rng.random_range(0..150) } else { 0 });
        let call = match rng.random_range(0..10) {
            0..3 => EnqueueCall::Bulk(works),
            3..9 => EnqueueCall::Transaction { works, commit: true, late },
            _ => EnqueueCall::Transaction { works, commit: false, late },
        };
        if !matches!(call, EnqueueCall::Transaction { commit: false, .. }) {
            enqueued += call.works().len();
        }
        application.perform(&call).await?;
    }
    Ok(application.ledger())
}

/// One job. Its priority must not change the order.
fn work(rng: &mut StdRng, producer: i64, number: i64) -> Work {
    let shape = Shape::ALL[rng.random_range(0..Shape::ALL.len())];
    let mut work = Work::new(number, shape).lasting(rng.random_range(0..15));
    work.priority = rng.random_range(0..3);
    if rng.random_bool(0.2) {
        disturb(rng, &mut work);
    }
    if rng.random_bool(0.2) {
        return work.ordered(OVERTAKEN, rng.random_range(0..SHARED), rng.random_bool(0.5));
    }
    let key = producer * OWN + rng.random_range(0..OWN);
    work.ordered(IN_ORDER, key, key % 2 == 1)
}
