//! Limits: at most this many jobs with the same key are available or running at once.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, JobFilter, LimitKey, Operated, Paging, PassOn, Transacted, WorkerInfo};
use diesel_jobs_core::{
    ClaimedJob, Depth, Finish, JobId, JobState, Keep, Limit, NewJob, Output, Rate, RunAt, Sequence, Transition, Unique,
    WorkerId,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::examining::{found, none, one};
use crate::fixture::{Act, Fixture};
use crate::transacting::{of_batch, transaction};

/// A job of kind `a` with this key, of which two may run at once.
pub(crate) fn limited(key: &str) -> NewJob {
    job().rule(Limit::new("stripe", 2).key(key)).unwrap()
}

/// A pass of admission. Returns how many jobs it has admitted.
pub(crate) async fn admit(db: &Database) -> usize {
    let found = db.storage.admit(false).await.unwrap();
    assert!(!found.is_busy);
    found.admitted
}

/// The jobs with a limit that are available or running, as one statement sees them.
fn started<F: Fixture>() -> &'static str {
    match F::TABLES.contains(&"ready") {
        true => {
            "select id from jobs.ready where rules is not null union all select id from jobs.running where rules is not null"
        }
        false => "select id from jobs_job where flags & 1 and not flags & 2 and state in ('available', 'running')",
    }
}

/// Checks that exactly the available and running jobs have a permit, and that no key has more than two.
pub(crate) async fn check<F: Fixture>(f: &F) {
    let (permit, started) = (F::table("permit"), started::<F>());
    let mut client = f.client().await;
    let unlike = format!(
        "select count(*) as number from ({started}) job full join {permit} permit on permit.job_id = job.id where permit.job_id is null or job.id is null"
    );
    assert_eq!(client.number(&unlike).await, 0, "permits that are missing or left behind");
    let over = format!(
        "select count(*) as number from (select limit_key from {permit} group by limit_name, limit_key having count(*) > 2) over"
    );
    assert_eq!(client.number(&over).await, 0, "keys with more than two permits");
}

async fn states(db: &Database, ids: &[JobId]) -> Vec<JobState> {
    let mut states = Vec::new();
    for id in ids {
        states.push(state(db, *id).await);
    }
    states
}

use JobState::{Available, Cancelled, Discarded, Held, Retrying, Scheduled};

pub(crate) async fn as_many_start_as_the_limit_allows<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        let ids = client.enqueue_all(vec![limited("x"); 4]).await.unwrap();
        let other = client.enqueue(limited("y")).await.unwrap();
        assert_eq!(states(db, &ids).await, [Held; 4], "{name}");
        assert!(claim(db, worker, 9).await.is_empty(), "{name}: no worker gets a held job");
        assert_eq!(admit(db).await, 3, "{name}: a full key does not delay another one");
        check(&f).await;
        assert_eq!(states(db, &ids).await, [Available, Available, Held, Held], "{name}");
        assert_eq!(state(db, other).await, Available, "{name}");
        assert_eq!(admit(db).await, 0, "{name}");
        let jobs = claim(db, worker, 9).await;
        assert_eq!(jobs.len(), 3, "{name}");
        check(&f).await;
        for job in jobs {
            assert!(job.flags.is_limited());
            assert!(finish(db, &job, DONE).await);
        }
        check(&f).await;
        assert_eq!(admit(db).await, 2, "{name}");
        for job in claim(db, worker, 9).await {
            assert!(finish(db, &job, Transition::Complete(Keep::Nothing)).await);
        }
        check(&f).await;
        assert_eq!(admit(db).await, 0, "{name}");
    }
}

pub(crate) async fn a_bulk_of_many_keys_answers_in_its_order<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        let keyed = |number: usize| {
            let mut job = limited(&format!("{}", number * 7919 % 50));
            job.args = format!(r#"{{"n":{number}}}"#);
            job
        };
        let mut jobs: Vec<NewJob> = (0..50).map(keyed).collect();
        let mut all = Vec::new();
        // In the second bulk, one differs in its priority.
        for alike in [true, false] {
            jobs[25].priority = if alike { 0 } else { 3 };
            let ids = client.enqueue_all(jobs.clone()).await.unwrap();
            for (job, id) in jobs.iter().zip(&ids) {
                let stored = record(db, *id).await;
                assert_eq!((&*stored.args, stored.priority), (&*job.args, job.priority), "{name}");
                assert_eq!(stored.rules, job.rules, "{name}");
            }
            assert!(ids.is_sorted(), "{name}");
            assert_eq!(admit(db).await, 50, "{name}: each key was nudged");
            all.extend(ids);
        }
        db.operator.act(&Action::Cancel, &all, "ann").await.unwrap();
    }
}

/// Enqueues three jobs with one key, and starts two of them.
async fn two_of_three<F: Fixture>(f: &F, worker: WorkerId) -> (Vec<ClaimedJob>, JobId) {
    let ids = enqueue_all(f, vec![limited("x"); 3]).await;
    assert_eq!(admit(f.database()).await, 2);
    let jobs = claim(f.database(), worker, 9).await;
    assert_eq!(jobs.len(), 2);
    (jobs, ids[2])
}

pub(crate) async fn every_end_gives_the_permit_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let keep = Keep::Nothing;
    let ends = [
        (DONE, JobState::Completed),
        (discard(), Discarded),
        (cancel(), Cancelled),
        (retry_in(HOUR), Retrying),
        (Transition::Snooze(HOUR), Scheduled),
    ];
    for (end, then) in ends {
        let (jobs, last) = two_of_three(&f, worker).await;
        assert!(finish(db, &jobs[0], end.clone()).await);
        check(&f).await;
        assert_eq!(state(db, jobs[0].lease.job).await, then);
        assert_eq!(admit(db).await, 1, "{}", end.name());
        assert_eq!(state(db, last).await, Available);
        // A batch of jobs with and without a limit.
        let plain = enqueue(&f, job()).await;
        let mut rest = claim(db, worker, 9).await;
        assert_eq!((rest.len(), rest.iter().filter(|job| job.lease.job == plain).count()), (2, 1));
        rest.push(jobs[1].clone());
        let finishes: Vec<Finish> = rest.iter().map(|job| Finish::new(job, Transition::Complete(keep))).collect();
        assert_eq!(db.storage.finish_all(&finishes).await.unwrap().len(), 3);
        check(&f).await;
        assert_eq!(admit(db).await, 0);
    }
}

pub(crate) async fn a_retry_waits_for_its_turn_and_a_release_keeps_it<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let (jobs, last) = two_of_three(&f, worker).await;
    let (one, other) = (&jobs[0], &jobs[1]);
    assert!(finish(db, one, Transition::Release).await);
    check(&f).await;
    assert_eq!(admit(db).await, 0, "the released job has its permit");
    let again = claim(db, worker, 9).await;
    assert_eq!(ids(&again), [one.lease.job]);
    assert_eq!(db.storage.finish_all(&[Finish::release(again[0].lease)]).await.unwrap(), [one.lease.job]);
    check(&f).await;
    assert_eq!(admit(db).await, 0, "so it has if only its lease is known");
    assert_eq!(ids(&claim(db, worker, 9).await), [one.lease.job]);
    assert!(finish(db, other, retry_in(Duration::ZERO)).await);
    check(&f).await;
    assert_eq!(state(db, other.lease.job).await, Held);
    assert_eq!(admit(db).await, 1);
    assert_eq!(state(db, last).await, Available, "it has waited for longer");
    let job = claim(db, worker, 9).await.remove(0);
    assert!(finish(db, &job, DONE).await);
    assert_eq!(admit(db).await, 1);
    let again = claim(db, worker, 9).await.remove(0);
    assert_eq!((again.lease.job, again.attempt), (other.lease.job, 2));
    check(&f).await;
}

pub(crate) async fn a_rescued_job_keeps_its_permit_and_a_discarded_one_does_not<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let mut once = limited("x");
    once.max_attempts = 1;
    let ids = enqueue_all(&f, vec![once, limited("x"), limited("x")]).await;
    assert_eq!(admit(db).await, 2);
    assert_eq!(claim(db, dead, 2).await.len(), 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let rescued = rescue(db, POLICY).await;
    assert_eq!((rescued.returned, rescued.discarded), (vec![ids[1]], vec![ids[0]]));
    check(&f).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(states(db, &ids).await, [Discarded, Available, Available]);
}

pub(crate) async fn handlers_give_the_permit_back_in_their_own_transaction<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for transition in [DONE, Transition::Complete(Keep::Nothing), Transition::Snooze(HOUR)] {
        for (name, connection, body) in F::provided() {
            let (jobs, _) = two_of_three(&f, worker).await;
            let act = Act::new(name, Ok(transition.clone()));
            let ended = db.storage.transact(transaction(&(name, connection, body), &jobs[0], act)).await;
            assert!(matches!(ended, Transacted::Committed(_)), "{name}: {ended:?}");
            check(&f).await;
            assert_eq!(admit(db).await, 1, "{name}");
            let third = claim(db, worker, 1).await.remove(0);
            for job in [&jobs[1], &third] {
                assert!(finish(db, job, DONE).await);
            }
        }
    }
    for (name, mut client) in f.clients().await {
        let (jobs, _) = two_of_three(&f, worker).await;
        client.begin().await;
        client.complete_in(&context(&jobs[0])).await.unwrap();
        client.commit().await;
        check(&f).await;
        assert_eq!(admit(db).await, 1, "{name}");
        let third = claim(db, worker, 1).await.remove(0);
        for job in [&jobs[1], &third] {
            assert!(finish(db, job, DONE).await);
        }
    }
}

/// An output is written before the finish, by a statement of its own on PostgreSQL.
pub(crate) async fn every_way_to_complete_with_an_output_gives_permit_and_key_back<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let end = Transition::CompleteWith(Keep::For(HOUR), Output::new("x"));
    let started = async || {
        enqueue_all(&f, vec![limited("x").unique(Unique::new()).unwrap(), job()]).await;
        assert_eq!(admit(db).await, 1, "the key and the permit are free");
        let jobs = claim(db, worker, 9).await;
        assert_eq!(jobs.len(), 2);
        jobs
    };
    let nothing_is_left = async |way: &str| {
        for table in ["permit", "unique_key"] {
            let left = format!("select count(*) as number from {}", F::table(table));
            assert_eq!(f.client().await.number(&left).await, 0, "{way}: {table}");
        }
    };
    let finishes = |jobs: &[ClaimedJob]| jobs.iter().map(|job| Finish::new(job, end.clone())).collect::<Vec<_>>();
    for job in started().await {
        assert!(finish(db, &job, end.clone()).await);
    }
    nothing_is_left("one by one").await;
    let together = db.storage.finish_all(&finishes(&started().await)).await.unwrap();
    assert_eq!(together.len(), 2);
    nothing_is_left("together").await;
    let passed_on = db.storage.finish(&finishes(&started().await), PassOn::Permits).await.unwrap();
    assert_eq!((passed_on.moved.len(), passed_on.passed_on), (2, 0));
    nothing_is_left("passed on").await;
    for provided in F::provided() {
        for job in started().await {
            let ended = db.storage.transact(transaction(&provided, &job, Act::new(provided.0, Ok(end.clone())))).await;
            assert!(matches!(ended, Transacted::Committed(_)), "{}: {ended:?}", provided.0);
        }
        nothing_is_left(provided.0).await;
        let act = Act::of_batch(provided.0, Ok(vec![end.clone(); 2]));
        let ended = db.storage.transact(of_batch(&provided, &started().await, act)).await;
        assert!(matches!(ended, Transacted::Committed(_)), "{}, a batch: {ended:?}", provided.0);
        nothing_is_left(provided.0).await;
    }
}

pub(crate) async fn a_job_for_later_is_admitted_when_it_is_due<F: Fixture>(f: F) {
    let db = f.database();
    let mut later = limited("x");
    later.run_at = RunAt::After(HOUR);
    let id = enqueue(&f, later).await;
    assert_eq!(state(db, id).await, Scheduled);
    assert_eq!(admit(db).await, 0, "it is not due");
    let other = enqueue(&f, limited("x")).await;
    assert_eq!(admit(db).await, 1, "it takes no permit before");
    assert_eq!(state(db, other).await, Available);
    f.client().await.execute(&F::passed(HOUR)).await.unwrap();
    assert_eq!(state(db, id).await, Held);
    assert_eq!(admit(db).await, 0, "nobody says that it has become due");
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1, "a sweep finds it");
    assert_eq!(state(db, id).await, Available);
    check(&f).await;
}

pub(crate) async fn a_sweep_finds_keys_without_a_nudge<F: Fixture>(f: F) {
    let db = f.database();
    enqueue_all(&f, (0..5).map(|key| limited(&key.to_string())).collect()).await;
    f.client().await.execute(&format!("delete from {}", F::table("nudge"))).await.unwrap();
    assert_eq!(admit(db).await, 0);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 5);
    check(&f).await;
}

pub(crate) async fn sweeps_reach_all_keys_in_turns<F: Fixture>(f: F) {
    let db = f.database();
    // Three jobs of each key: two start, and one stays.
    for _ in 0..3 {
        enqueue_all(&f, (0..1200).map(|key| limited(&format!("{key:04}"))).collect()).await;
    }
    while admit(db).await > 0 {}
    let due = enqueue(&f, limited("last")).await;
    f.client().await.execute(&format!("delete from {}", F::table("nudge"))).await.unwrap();
    // A sweep examines a thousand keys, and these keys stay.
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0);
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
    assert_eq!(state(db, due).await, Available);
}

pub(crate) async fn an_enqueue_is_a_part_of_its_transaction<F: Fixture>(f: F) {
    let db = f.database();
    for (name, mut client) in f.clients().await {
        client.begin().await;
        let id = client.enqueue(limited("x")).await.unwrap();
        client.rollback().await;
        assert_eq!(admit(db).await, 0, "{name}");
        assert!(show(db, id).await.is_none(), "{name}");
        client.begin().await;
        let jobs = vec![job(), limited("x"), job(), limited(name), limited("x"), limited("x")];
        let queues = ["0", "1", "2", "3", "4", "5"];
        let named = jobs.into_iter().zip(queues).map(|(mut job, queue)| {
            job.queue = queue.into();
            job
        });
        let ids = client.enqueue_all(named.collect()).await.unwrap();
        client.commit().await;
        assert_eq!(ids.len(), 6, "{name}");
        for (id, queue) in ids.iter().zip(queues) {
            assert_eq!(record(db, *id).await.queue, queue, "{name}: the ids have the order of the jobs");
        }
        assert_eq!(admit(db).await, 3, "{name}");
        let answers = db.operator.act(&Action::Cancel, &ids, "ann").await.unwrap();
        assert_eq!(answers, [Operated::Done; 6], "{name}");
        check(&f).await;
        assert_eq!(admit(db).await, 0, "{name}");
    }
}

pub(crate) async fn large_arguments_wait_with_their_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let args = format!(r#"{{"text":"{}"}}"#, "ab c".repeat(20_000));
    let mut job = NewJob::raw("a", args.clone()).rule(Limit::new("stripe", 1)).unwrap();
    job.tags = vec!["t".to_owned()];
    let id = enqueue(&f, job).await;
    let waiting = record(db, id).await;
    assert_eq!((waiting.args, waiting.state), (args.clone(), Held));
    // The repair of an orphan deletes it.
    none(db, "orphan").await;
    let limit = &waiting.rules[0];
    assert_eq!((&*limit.name, &*limit.key, limit.rule.most()), ("stripe", "[]", Some(1)));
    assert_eq!(admit(db).await, 1);
    let claimed = claim(db, worker, 1).await.remove(0);
    assert_eq!(String::from_utf8(claimed.args.clone()).unwrap(), args);
    assert!(finish(db, &claimed, discard()).await);
    let ended = record(db, id).await;
    assert_eq!((ended.args, ended.tags, ended.rules), (args, vec!["t".to_owned()], waiting.rules));
}

pub(crate) async fn operators_act_on_held_jobs<F: Fixture>(f: F) {
    let db = f.database();
    let act = async |action: Action, id: JobId| db.operator.act(&action, &[id], "ann").await.unwrap()[0];
    let ids = enqueue_all(&f, vec![limited("x"); 7]).await;
    assert_eq!(admit(db).await, 2);
    let [one, two, three, four, five, six, seven] = ids[..] else { panic!() };
    assert_eq!(act(Action::Move("other".to_owned()), three).await, Operated::Done);
    assert_eq!(act(Action::Reprioritise(7), four).await, Operated::Done);
    assert_eq!(act(Action::Delete, five).await, Operated::Done);
    assert_eq!(act(Action::Cancel, six).await, Operated::Done);
    assert_eq!(act(Action::Discard, seven).await, Operated::Done);
    assert_eq!(act(Action::RunNow, three).await, Operated::Done);
    check(&f).await;
    assert_eq!(admit(db).await, 0, "no action gives a job a permit");
    assert_eq!(
        states(db, &[one, two, three, four, six, seven]).await,
        [Available, Available, Held, Held, Cancelled, Discarded]
    );
    assert!(show(db, five).await.is_none());
    let (moved, raised) = (record(db, three).await, record(db, four).await);
    assert_eq!((&*moved.queue, raised.priority), ("other", 7));
    assert_eq!(act(Action::Delete, one).await, Operated::Done);
    check(&f).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(states(db, &[three, four]).await, [Held, Available], "the higher priority comes first");
    assert_eq!(act(Action::Retry, six).await, Operated::Done);
    assert_eq!(state(db, six).await, Held, "it waits for its turn again");
    let Operated::Enqueued(again) = act(Action::Rerun, seven).await else { panic!() };
    assert_eq!(state(db, again).await, Held);
    for id in [two, four] {
        assert_eq!(act(Action::Cancel, id).await, Operated::Done);
    }
    check(&f).await;
    assert_eq!(admit(db).await, 2);
    assert_eq!(states(db, &[three, six, again]).await, [Available, Available, Held]);
    check(&f).await;
}

pub(crate) async fn held_jobs_are_found_and_counted<F: Fixture>(f: F) {
    let db = f.database();
    let mut later = limited("x");
    later.run_at = RunAt::After(HOUR);
    let ids = enqueue_all(&f, vec![limited("x"), limited("x"), limited("x"), later, job()]).await;
    admit(db).await;
    let found = async |filter: JobFilter| {
        let page = db.operator.list(&filter, Paging::newest(10)).await.unwrap();
        page.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    let of = |state| JobFilter { states: vec![state], ..JobFilter::default() };
    assert_eq!(found(of(Held)).await, [ids[2]]);
    assert_eq!(found(of(Scheduled)).await, [ids[3]]);
    let mut available = found(of(Available)).await;
    available.sort_unstable();
    let mut wanted = [ids[4], ids[1], ids[0]];
    wanted.sort_unstable();
    assert_eq!(available, wanted);
    assert_eq!(found(JobFilter::default()).await.len(), 5);
    let stats = db.operator.stats().await.unwrap();
    let kind = &stats.kinds[0];
    assert_eq!((kind.available, kind.scheduled, kind.held), (3, 1, 1));
    let depth = |jobs| Depth { jobs, is_exact: true };
    let queue = &stats.queues[0];
    assert_eq!((queue.available, queue.later, queue.held), (depth(3), depth(1), depth(1)));
    assert_eq!(stats.unfinished(), depth(5));
}

pub(crate) async fn a_queue_of_held_jobs_alone_has_a_depth_and_a_diagnosis<F: Fixture>(f: F) {
    let db = f.database();
    let mut held = limited("x");
    held.queue = "mail".into();
    let held = enqueue(&f, held).await;
    let depths = async || {
        let stats = db.operator.stats().await.unwrap();
        stats
            .queues
            .iter()
            .map(|queue| format!("{} {} {}", queue.queue, queue.available, queue.held))
            .collect::<Vec<_>>()
    };
    assert_eq!(depths().await, ["mail 0 1"]);
    worker(db).await;
    assert!(one(db, "unserved_queue").await.what.contains("queue `mail`"));
    let id = WorkerId::generate();
    let serves =
        |kind: &str| WorkerInfo { queues: vec!["mail".to_owned()], kinds: vec![kind.to_owned()], ..info(id, HOUR) };
    db.storage.register(&serves("other")).await.unwrap();
    none(db, "unserved_queue").await;
    assert!(one(db, "unknown_kind").await.what.contains("kind `a`"));
    none(db, "oldest_held").await;
    let table = if F::TABLES.contains(&"ready") { F::table("held") } else { F::table("job") };
    let hour_ago = match F::TABLES.contains(&"ready") {
        true => format!("update {table} set run_at = now() - interval '1 hour' where id = {held}"),
        false => format!("update {table} set due_at = due_at - 3600000000 where id = {held}"),
    };
    f.client().await.execute(&hour_ago).await.unwrap();
    let finding = one(db, "oldest_held").await;
    assert!(finding.what.contains(r#"Z for the limit `stripe` with the key `["x"]`, longer"#), "{finding:?}");
    let repair = format!("worker why {held}; to let more of them run at once: worker limits set 'stripe' N");
    assert!(finding.repair.ends_with(&repair), "{finding:?}");
    none(db, "oldest_due").await;
    // A paused kind waits on purpose.
    db.operator.pause_kind("a", "ann", None).await.unwrap();
    none(db, "oldest_held").await;
    db.operator.resume_kind("a", "ann").await.unwrap();
    assert_eq!(admit(db).await, 1);
    none(db, "oldest_held").await;
    assert_eq!(depths().await, ["mail 1 0"]);
}

pub(crate) async fn limits_are_listed_with_the_keys_that_hold_jobs_back<F: Fixture>(f: F) {
    let db = f.database();
    let mail = || job().rule(Limit::new("mail", 1)).unwrap();
    let mut later = limited("z");
    later.run_at = RunAt::After(HOUR);
    let mut jobs = vec![limited("x"); 4];
    jobs.extend([limited("y"), later, mail(), mail()]);
    let ids = enqueue_all(&f, jobs).await;
    assert_eq!(admit(db).await, 4);
    let limits = db.operator.limits().await.unwrap();
    assert!(limits.iter().all(|limit| !limit.is_sequence), "{limits:?}");
    let limits: Vec<_> =
        limits.iter().map(|limit| format!("{} {} {}", limit.name, limit.held, limit.permits)).collect();
    assert_eq!(limits, ["mail 1 1", "stripe 2 3"]);
    assert!(db.operator.rate_keys(None, 10).await.unwrap().is_empty());

    let listed = async |after: Option<(&str, &str)>, limit| {
        let after = after.map(|(name, key)| (name.to_owned(), key.to_owned()));
        let keys = db.operator.limit_keys(after, limit).await.unwrap();
        let line = |key: LimitKey| {
            let since = key.oldest.map_or("none due", |_| "due");
            let LimitKey { name, key: of, most, taken, held, .. } = &key;
            format!("{name} {of} {taken}/{most} {held} {since} {}", key.is_full())
        };
        keys.into_iter().map(line).collect::<Vec<_>>()
    };
    let [mail, x] = ["mail [] 1/1 1 due true", r#"stripe ["x"] 2/2 2 due true"#];
    assert_eq!(listed(None, 10).await, [mail, x], "a job for later is held back by its time");
    assert_eq!(listed(None, 1).await, [mail]);
    assert_eq!(listed(Some(("mail", "[]")), 1).await, [x]);
    assert!(listed(Some(("stripe", r#"["x"]"#)), 10).await.is_empty());
    let keys = db.operator.limit_keys(None, 10).await.unwrap();
    assert_eq!((&keys[0].holders[..], &keys[1].holders[..]), (&ids[6..7], &ids[..2]));
    assert!(close(keys[1].oldest.unwrap(), now(db).await), "{:?}", keys[1].oldest);
}

pub(crate) async fn a_paused_queue_takes_no_permits<F: Fixture>(f: F) {
    let db = f.database();
    db.operator.pause_queue("default", "ann", None).await.unwrap();
    let mut other = limited("x");
    other.queue = "other".into();
    enqueue_all(&f, vec![limited("x"), limited("x"), other]).await;
    assert_eq!(admit(db).await, 1);
    check(&f).await;
    db.operator.resume_queue("default", "ann").await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
    db.operator.freeze("ann", "a test").await.unwrap();
    enqueue(&f, limited("y")).await;
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 0);
    check(&f).await;
}

/// Enqueues many jobs of the key `x`, which come before all others and may not start.
async fn ineligible<F: Fixture>(f: &F, number: usize, set: impl Fn(&mut NewJob)) {
    let mut job = limited("x");
    job.priority = 9;
    set(&mut job);
    for _ in 0..number / 1000 {
        enqueue_all(f, vec![job.clone(); 1000]).await;
    }
}

/// Makes passes until nothing is left to do. Returns how many jobs they have admitted.
async fn admit_all(db: &Database) -> usize {
    let mut admitted = 0;
    for _ in 0..1000 {
        let found = db.storage.admit(true).await.unwrap();
        admitted += found.admitted;
        if !found.more && found.admitted == 0 {
            return admitted;
        }
    }
    panic!("passes do not end");
}

pub(crate) async fn jobs_that_may_not_start_delay_no_other<F: Fixture>(f: F) {
    let db = f.database();
    db.operator.pause_queue("paused", "ann", None).await.unwrap();
    db.operator.pause_kind("b", "ann", None).await.unwrap();
    ineligible(&f, 4000, |job| job.run_at = RunAt::After(HOUR)).await;
    ineligible(&f, 4000, |job| job.queue = "paused".into()).await;
    ineligible(&f, 2000, |job| job.kind = "b".into()).await;
    let behind = enqueue_all(&f, vec![limited("x"); 3]).await;
    let other = enqueue(&f, limited("y")).await;
    // SQLite has a nudge for each job, and a pass takes a thousand of them.
    for pass in 0.. {
        db.storage.admit(false).await.unwrap();
        if state(db, other).await == Available {
            break;
        }
        assert!(pass < 12, "another key waits");
    }
    admit_all(db).await;
    assert_eq!(states(db, &behind).await, [Available, Available, Held]);
    check(&f).await;
    let found = db.storage.admit(true).await.unwrap();
    assert!(!found.more && !found.sweep_again, "nothing is left to do: {found:?}");
    // After a resume, all are found at once.
    for id in &behind {
        db.operator.act(&Action::Cancel, &[*id], "ann").await.unwrap();
    }
    db.operator.resume_kind("b", "ann").await.unwrap();
    assert_eq!(admit_all(db).await, 2);
    let b = JobFilter { kinds: vec!["b".to_owned()], states: vec![Available], ..JobFilter::default() };
    assert_eq!(db.operator.list(&b, Paging::newest(10)).await.unwrap().jobs.len(), 2);
    check(&f).await;
}

/// Each key has a job of a paused queue. After the resume, passes do not wait for each other.
pub(crate) async fn a_resume_finds_all_keys_at_once<F: Fixture>(f: F) {
    const KEYS: usize = 6000;
    let db = f.database();
    db.operator.pause_queue("paused", "ann", None).await.unwrap();
    let paused = |key: usize| {
        let mut job = limited(&key.to_string());
        job.queue = "paused".into();
        job
    };
    for first in (0..KEYS).step_by(1000) {
        enqueue_all(&f, (first..first + 1000).map(paused).collect()).await;
    }
    assert_eq!(admit_all(db).await, 0);
    db.operator.resume_queue("paused", "ann").await.unwrap();
    let first = db.storage.admit(true).await.unwrap();
    assert!(first.sweep_again && first.more, "{first:?}");
    assert_eq!(first.admitted + admit_all(db).await, KEYS);
    check(&f).await;
}

/// A trigger of the application refuses the first job of the key.
pub(crate) async fn a_job_that_the_database_refuses_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    f.client().await.execute(F::UNHURRIED).await.unwrap();
    let refuse = match F::TABLES.contains(&"ready") {
        true => {
            "create function refuse() returns trigger language plpgsql as $$ begin
                if new.kind = 'b' then raise exception 'not this one'; end if; return new; end $$;
            create trigger refuse before insert on jobs.ready for each row execute function refuse()"
        }
        false => {
            "create trigger refuse before update of run_at on jobs_job when new.kind = 'b' and not new.flags & 2 and new.state = 'available'
             begin select raise(abort, 'not this one'); end"
        }
    };
    f.client().await.execute(refuse).await.unwrap();
    let one = |kind: &'static str| NewJob::raw(kind, "{}").rule(Limit::new("one", 1)).unwrap();
    let ids = enqueue_all(&f, vec![one("b"), one("a"), one("a"), limited("y")]).await;
    let first = db.storage.admit(false).await.unwrap();
    assert_eq!((first.admitted, first.refused), (1, 1), "the other key goes on");
    assert_eq!(admit(db).await, 1, "the rest of the key goes on");
    assert_eq!(states(db, &ids[1..]).await, [Available, Held, Available]);
    match show(db, ids[0]).await {
        Some((job, _)) => {
            assert_eq!(job.state, Discarded);
            assert!(job.last_error.unwrap().contains("not this one"));
        }
        None => {
            let letters = db.operator.dead_letters().await.unwrap();
            assert_eq!((letters.count, letters.newest.as_ref().unwrap().id), (1, ids[0]));
            assert!(letters.newest.unwrap().reason.contains("not this one"));
        }
    }
    check(&f).await;
}

/// Lets an error that is not about the job meet jobs of the kind `b` when they become available, and the repair.
fn refusing<F: Fixture>() -> (&'static str, &'static str) {
    match F::TABLES.contains(&"ready") {
        true => (
            "create function refuse() returns trigger language plpgsql as $$ begin
                if new.kind = 'b' then perform from nowhere; end if; return new; end $$;
            create trigger refuse before insert on jobs.ready for each row execute function refuse()",
            "drop trigger refuse on jobs.ready",
        ),
        false => (
            "create trigger refuse before update of run_at on jobs_job when new.kind = 'b' and not new.flags & 2 and new.state = 'available'
             begin select raise(abort, 'the account is locked'); end",
            "drop trigger refuse",
        ),
    }
}

/// Moves the next try of what has failed by most of a minute, so that it does not matter how long a test takes.
fn put_off<F: Fixture>() -> &'static str {
    match F::TABLES.contains(&"ready") {
        true => {
            "update jobs.admission_failure set next_at = next_at + interval '50 seconds';
             update jobs.held set run_at = run_at + interval '50 seconds' where id in (select job_id from jobs.admission_failure)"
        }
        false => {
            "update jobs_admission_failure set next_at = next_at + 50000000;
             update jobs_job set due_at = due_at + 50000000 where id in (select job_id from jobs_admission_failure)"
        }
    }
}

pub(crate) async fn a_job_that_is_tried_again_spends_no_token_and_keeps_its_turn<F: Fixture>(f: F) {
    let db = f.database();
    f.client().await.execute(F::UNHURRIED).await.unwrap();
    let (refuse, repair) = refusing::<F>();
    f.client().await.execute(refuse).await.unwrap();
    let rate = |kind: &'static str| NewJob::raw(kind, "{}").rule(Rate::new("api", 1, HOUR).burst(1)).unwrap();
    let turn = |kind: &'static str| NewJob::raw(kind, "{}").rule(Sequence::new("orders")).unwrap();
    let ids = enqueue_all(&f, vec![rate("b"), rate("a"), turn("b"), turn("a")]).await;
    assert_eq!(admit(db).await, 0);
    f.client().await.execute(put_off::<F>()).await.unwrap();
    db.storage.admit(true).await.unwrap();
    assert_eq!(states(db, &ids).await, [Scheduled, Available, Scheduled, Held], "the token is for the other job");
    f.client().await.execute(repair).await.unwrap();
    f.client().await.execute(&F::passed(MINUTE)).await.unwrap();
    db.storage.admit(true).await.unwrap();
    assert_eq!(states(db, &ids).await, [Held, Available, Available, Held], "one token came, and the turn has come");
}

pub(crate) async fn a_job_that_a_sweep_cannot_free_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    f.client().await.execute(F::UNHURRIED).await.unwrap();
    let raise = match F::TABLES.contains(&"ready") {
        true => {
            "create function refuse() returns trigger language plpgsql as $$ begin
                if new.kind = 'b' and old.later and not new.later then raise exception 'not now'; end if; return new; end $$;
             create trigger refuse before update on jobs.held for each row execute function refuse()"
        }
        false => {
            "create trigger refuse before update on jobs_job when new.kind = 'b' and old.held_back = 1 and new.held_back = 0
             begin select raise(abort, 'not now'); end"
        }
    };
    f.client().await.execute(raise).await.unwrap();
    let one = |kind: &'static str| {
        let mut job = NewJob::raw(kind, "{}").rule(Limit::new(kind, 1)).unwrap();
        job.run_at = RunAt::After(MINUTE);
        job
    };
    let ids = enqueue_all(&f, vec![one("b"), one("a")]).await;
    f.client().await.execute(&F::passed(2 * MINUTE)).await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
    assert_eq!(states(db, &ids).await, [Held, Available]);
    assert_eq!(failures_of(db, ids[0]).await, 1);
    let tells_of_sweep = found(db, "admission").await.iter().any(|found| found.what.contains("the sweep"));
    assert_eq!(tells_of_sweep, F::TABLES.contains(&"ready"), "SQLite has no statement that frees several at once");
    // The next sweeps leave it out until the time that the doctor names.
    f.client().await.execute(put_off::<F>()).await.unwrap();
    db.storage.admit(true).await.unwrap();
    assert_eq!(failures_of(db, ids[0]).await, 1);
    f.client().await.execute(&F::passed(MINUTE)).await.unwrap();
    db.storage.admit(true).await.unwrap();
    assert_eq!(failures_of(db, ids[0]).await, 2);
    let table = if F::TABLES.contains(&"ready") { " on jobs.held" } else { "" };
    f.client().await.execute(&format!("drop trigger refuse{table}")).await.unwrap();
    f.client().await.execute(&F::passed(2 * MINUTE)).await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
    none(db, "admission").await;
    check(&f).await;
}

/// How often admission has failed for this job, as the doctor says.
async fn failures_of(db: &Database, id: JobId) -> usize {
    let about = format!("admission of job {id} ");
    let found = found(db, "admission").await;
    let of_job = found.iter().find(|found| found.what.starts_with(&about)).unwrap_or_else(|| panic!("{found:?}"));
    match of_job.what.split_once(" has failed ").unwrap().1.split(' ').next().unwrap() {
        "once" => 1,
        times => times.parse().unwrap(),
    }
}

pub(crate) async fn an_error_that_is_not_about_the_job_stops_no_other<F: Fixture>(f: F) {
    let db = f.database();
    f.client().await.execute(F::UNHURRIED).await.unwrap();
    let (refuse, repair) = refusing::<F>();
    f.client().await.execute(refuse).await.unwrap();
    let one = |kind: &'static str, limit: &str| NewJob::raw(kind, "{}").rule(Limit::new(limit, 1)).unwrap();
    let ids = enqueue_all(&f, vec![one("b", "own"), one("b", "both"), one("a", "both"), limited("y")]).await;
    let mut admitted = admit(db).await;
    f.client().await.execute(put_off::<F>()).await.unwrap();
    admitted += admit(db).await;
    assert_eq!(admitted, 2, "the other keys go on, and the rest of the key");
    assert_eq!(states(db, &ids).await, [Scheduled, Scheduled, Available, Available]);
    assert_eq!(db.storage.admit(true).await.unwrap().failures, Some(2));
    let findings = found(db, "admission").await;
    let what = format!("admission of job {} (b) in queue `default` has failed", ids[0]);
    assert!(findings.iter().any(|finding| finding.what.starts_with(&what)), "{findings:?}");
    check(&f).await;
    f.client().await.execute(repair).await.unwrap();
    f.client().await.execute(&F::passed(MINUTE)).await.unwrap();
    assert_eq!(db.storage.admit(true).await.unwrap().admitted, 1);
    assert_eq!(states(db, &ids).await, [Available, Held, Available, Available]);
    db.storage.admit(true).await.unwrap();
    none(db, "admission").await;
    check(&f).await;
}

/// Four workers claim, finish in all ways, and admit, all at once. After each step of theirs the limits hold.
pub(crate) async fn at_no_time_are_there_more_than_the_limit<F: Fixture>(f: F) {
    const JOBS: usize = 120;
    let keys = ["x", "y", "z"];
    let jobs: Vec<NewJob> = (0..JOBS).map(|number| limited(keys[number % 3])).collect();
    let mut databases = Vec::new();
    for _ in 0..4 {
        databases.push(f.again().await);
    }
    let ended = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    let work = |number: usize, db: Database| {
        let ended = &ended;
        async move {
            let worker = worker(&db).await;
            let mut step = number;
            while ended.load(order) < JOBS {
                db.storage.admit(step.is_multiple_of(3)).await.unwrap();
                let claimed = claim(&db, worker, 3).await;
                for job in claimed {
                    step += 1;
                    let transition = match step % 4 {
                        0 => retry_in(Duration::ZERO),
                        1 => Transition::Release,
                        2 => Transition::Complete(Keep::Nothing),
                        _ => DONE,
                    };
                    let ends = step % 4 >= 2;
                    while !finish(&db, &job, transition.clone()).await {
                        tokio::task::yield_now().await;
                    }
                    ended.fetch_add(usize::from(ends), order);
                }
            }
        }
    };
    let checks = async {
        while ended.load(order) < JOBS {
            check(&f).await;
            // The checks read all jobs. Without a pause they would take most of the time of a busy server.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let enqueues = async {
        let mut client = f.client().await;
        for jobs in jobs.chunks(20) {
            client.enqueue_all(jobs.to_vec()).await.unwrap();
        }
    };
    let mut workers = databases.into_iter().enumerate().map(|(number, db)| work(number, db));
    let (one, two, three, four) =
        (workers.next().unwrap(), workers.next().unwrap(), workers.next().unwrap(), workers.next().unwrap());
    tokio::join!(enqueues, checks, one, two, three, four);
    assert_eq!(ended.load(order), JOBS);
    let mut client = f.client().await;
    let permits = format!("select count(*) as number from {}", F::table("permit"));
    assert_eq!(client.number(&permits).await, 0, "all permits are given back");
}
