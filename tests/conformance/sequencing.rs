//! Sequences: jobs with the same key run one after the other, in the order of their ids, through retries, snoozes,
//! rescues and cancels.

use std::time::Duration;

use diesel_jobs_core::storage::{Action, Explained, Operated, Reason, RescanReason};
use diesel_jobs_core::{
    ClaimedJob, JobId, JobState, Keep, Limit, NewJob, OnDiscard, RunAt, Sequence, Transition, WorkerId,
};
use diesel_jobs_storage::Database;

use crate::bench::*;
use crate::fixture::Fixture;
use crate::limiting::admit;

use JobState::{Available, Cancelled, Discarded, Held, Retrying};

/// A job of kind `a` in the sequence with this key.
fn ordered(key: &str) -> NewJob {
    with(key, OnDiscard::Halt)
}

fn with(key: &str, on_discard: OnDiscard) -> NewJob {
    job().rule(Sequence::new("orders").key(key).on_discard(on_discard)).unwrap()
}

/// A pass that also sweeps.
async fn sweep(db: &Database) -> usize {
    db.storage.admit(true).await.unwrap().admitted
}

/// Why the job waits in its sequence.
async fn why(db: &Database, id: JobId) -> Explained {
    let why = db.operator.why(id).await.unwrap();
    why.reasons.into_iter().find(|reason| matches!(reason.reason, Reason::Held(_))).unwrap()
}

/// The discarded job says which sequence it halts, and what to do. Only a job that is kept can be retried.
async fn halts(db: &Database, id: JobId, text: &str, is_kept: bool) {
    let why = db.operator.why(id).await.unwrap();
    let reason = why.reasons.into_iter().find(|reason| matches!(reason.reason, Reason::Halts(_))).unwrap();
    assert_eq!(reason.text, text);
    assert_eq!(reason.advice.contains(&format!("`worker retry {id}`")), is_kept, "{}", reason.advice);
    assert!(reason.advice.contains("`worker sequences skip orders '[\"x\"]'`"), "{}", reason.advice);
}

/// Claims the only job that may start. Time that a test lets pass may have moved it below the scan floor, until a
/// rescan.
async fn only(db: &Database, worker: WorkerId) -> ClaimedJob {
    let mut jobs = claim(db, worker, 9).await;
    if jobs.is_empty() {
        db.storage.rescan(&wants(worker, &[("default", 9)]), RescanReason::Requested).await.unwrap();
        jobs = claim(db, worker, 9).await;
    }
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

/// Starts the only job that may start, after a pass, and completes it. Returns it.
async fn step(db: &Database, worker: WorkerId) -> JobId {
    assert_eq!(admit(db).await, 1);
    let job = only(db, worker).await;
    assert!(finish(db, &job, DONE).await);
    job.lease.job
}

pub(crate) async fn jobs_run_one_after_the_other_by_id<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for (name, mut client) in f.clients().await {
        // Neither the priority nor the time changes the order.
        let mut jobs = vec![ordered("x"); 4];
        jobs[2].priority = 9;
        jobs[3].run_at = RunAt::At(chrono::Utc::now() - HOUR);
        let ids = client.enqueue_all(jobs).await.unwrap();
        let other = client.enqueue(ordered("y")).await.unwrap();
        assert_eq!(admit(db).await, 2, "{name}: each key is a sequence of its own");
        assert_eq!(admit(db).await, 0, "{name}");
        let first = claim(db, worker, 9).await;
        let mut started = crate::bench::ids(&first);
        started.sort_unstable();
        assert_eq!(started, [ids[0], other], "{name}");
        assert_eq!(admit(db).await, 0, "{name}: the first one runs");
        for job in first {
            assert!(finish(db, &job, DONE).await);
        }
        for id in &ids[1..] {
            assert_eq!(step(db, worker).await, *id, "{name}");
        }
        assert_eq!(admit(db).await, 0, "{name}");
    }
}

pub(crate) async fn a_job_keeps_its_turn_until_it_has_ended_for_good<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ids = enqueue_all(&f, vec![ordered("x"); 3]).await;
    let first = ids[0];
    assert_eq!(admit(db).await, 1);
    for (again, then) in [
        (retry_in(Duration::ZERO), Held),
        (Transition::Snooze(Duration::ZERO), Held),
        (Transition::Release, Available),
        (retry_in(HOUR), Retrying),
        (Transition::Snooze(HOUR), Retrying),
    ] {
        let job = only(db, worker).await;
        assert_eq!(job.lease.job, first, "{}", again.name());
        assert!(finish(db, &job, again.clone()).await);
        assert_eq!(state(db, first).await, then, "{}", again.name());
        if then == Retrying {
            assert_eq!(sweep(db).await, 0, "{}: the others wait with it", again.name());
            f.client().await.execute(&F::passed(HOUR)).await.unwrap();
        }
        assert_eq!(sweep(db).await, usize::from(then != Available), "{}", again.name());
    }
    let job = only(db, worker).await;
    assert_eq!(job.lease.job, first);
    assert!(finish(db, &job, Transition::Complete(Keep::Nothing)).await);
    assert_eq!((step(db, worker).await, step(db, worker).await), (ids[1], ids[2]));
}

pub(crate) async fn a_killed_worker_does_not_change_the_order<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let ids = enqueue_all(&f, vec![ordered("x"); 2]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(claim(db, dead, 9).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(rescue(db, POLICY).await.returned, [ids[0]]);
    assert_eq!(sweep(db).await, 0);
    let worker = worker(db).await;
    let job = only(db, worker).await;
    assert_eq!(job.lease.job, ids[0]);
    assert!(finish(db, &job, DONE).await);
    assert_eq!(step(db, worker).await, ids[1]);
}

pub(crate) async fn a_rescue_that_discards_halts_the_sequence<F: Fixture>(f: F) {
    let db = f.database();
    let dead = mortal(db).await;
    let mut once = ordered("x");
    once.max_attempts = 1;
    let ids = enqueue_all(&f, vec![once, ordered("x")]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(claim(db, dead, 9).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(rescue(db, POLICY).await.discarded, [ids[0]]);
    assert_eq!(sweep(db).await, 0, "it is halted");
    assert_eq!(db.operator.halted_sequences(9).await.unwrap()[0].job, ids[0]);
    let limits = db.operator.limits().await.unwrap();
    assert!(limits.iter().all(|limit| limit.is_sequence) && limits.len() == 1, "{limits:?}");
}

pub(crate) async fn a_job_that_is_not_due_stops_those_behind_it<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut later = ordered("x");
    later.run_at = RunAt::After(HOUR);
    let ids = enqueue_all(&f, vec![later, ordered("x")]).await;
    assert_eq!(sweep(db).await, 0);
    f.client().await.execute(&F::passed(HOUR)).await.unwrap();
    assert_eq!(sweep(db).await, 1);
    let job = only(db, worker).await;
    assert_eq!(job.lease.job, ids[0]);
    assert!(finish(db, &job, DONE).await);
    assert_eq!(step(db, worker).await, ids[1]);
}

/// Discards the first of three jobs, in a way.
async fn halted<F: Fixture>(f: &F, worker: WorkerId, end: Transition) -> Vec<JobId> {
    let db = f.database();
    let ids = enqueue_all(f, vec![ordered("x"); 3]).await;
    assert_eq!(admit(db).await, 1);
    let job = only(db, worker).await;
    assert!(finish(db, &job, end).await);
    ids
}

pub(crate) async fn a_discarded_job_halts_its_sequence_until_it_is_retried<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ids = halted(&f, worker, discard()).await;
    assert_eq!((admit(db).await, sweep(db).await), (0, 0), "nothing starts");
    let found = db.operator.halted_sequences(9).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].name, &*found[0].key, found[0].job, found[0].waiting), ("orders", "[\"x\"]", ids[0], 2));
    let reason = why(db, ids[1]).await;
    assert!(
        reason.text.contains("is halted") && reason.text.contains(&format!("job {} was discarded", ids[0])),
        "{}",
        reason.text
    );
    assert!(reason.advice.contains(&format!("worker retry {}", ids[0])), "{}", reason.advice);
    assert!(reason.advice.contains("worker sequences skip orders '[\"x\"]'"), "{}", reason.advice);
    halts(db, ids[0], "this job halts the sequence `orders` for key [\"x\"]: 2 jobs wait behind it", true).await;
    assert_eq!(db.operator.act(&Action::Retry, &ids[..1], "ann").await.unwrap(), [Operated::Done]);
    assert_eq!(admit(db).await, 1);
    assert!(db.operator.halted_sequences(9).await.unwrap().is_empty());
    assert!(db.operator.why(ids[0]).await.unwrap().reasons.iter().all(|one| !matches!(one.reason, Reason::Halts(_))));
    let job = only(db, worker).await;
    assert_eq!(job.lease.job, ids[0], "the retried job comes first");
    assert!(finish(db, &job, DONE).await);
    assert_eq!((step(db, worker).await, step(db, worker).await), (ids[1], ids[2]));
}

pub(crate) async fn an_operator_skips_a_discarded_job<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ids = halted(&f, worker, discard()).await;
    assert!(!db.operator.skip_sequence("orders", "[\"y\"]", "ann").await.unwrap(), "another key");
    assert!(db.operator.skip_sequence("orders", "[\"x\"]", "ann").await.unwrap());
    assert!(!db.operator.skip_sequence("orders", "[\"x\"]", "ann").await.unwrap(), "it is not halted any more");
    let audit = db.operator.audit(None, 9).await.unwrap();
    assert_eq!((&*audit[0].actor, &*audit[0].action, &*audit[0].target), ("ann", "skip", "sequence orders"));
    assert_eq!((step(db, worker).await, step(db, worker).await), (ids[1], ids[2]));
    assert_eq!(state(db, ids[0]).await, Discarded);
}

/// Also if the job is deleted, at once or later.
pub(crate) async fn a_deleted_job_does_not_lose_the_halt<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ids = halted(&f, worker, discard()).await;
    assert_eq!(db.operator.act(&Action::Delete, &ids[..1], "ann").await.unwrap(), [Operated::Done]);
    assert_eq!((sweep(db).await, sweep(db).await), (0, 0));
    assert_eq!(db.operator.halted_sequences(9).await.unwrap()[0].job, ids[0]);
    assert!(db.operator.skip_sequence("orders", "[\"x\"]", "ann").await.unwrap());
    assert_eq!((step(db, worker).await, step(db, worker).await), (ids[1], ids[2]));
    let Transition::Discard { failure, .. } = discard() else { panic!() };
    let ids = halted(&f, worker, Transition::Discard { failure, keep: Keep::Nothing }).await;
    assert!(show(db, ids[0]).await.is_none());
    halts(db, ids[0], "this job halts the sequence `orders` for key [\"x\"]: 2 jobs wait behind it", false).await;
    assert_eq!((sweep(db).await, sweep(db).await), (0, 0));
    assert_eq!(db.operator.halted_sequences(9).await.unwrap()[0].job, ids[0]);
}

pub(crate) async fn with_skip_the_next_job_starts<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let ids = enqueue_all(&f, vec![with("x", OnDiscard::Skip); 2]).await;
    assert_eq!(admit(db).await, 1);
    let job = only(db, worker).await;
    assert!(finish(db, &job, discard()).await);
    assert_eq!(step(db, worker).await, ids[1]);
    assert!(db.operator.halted_sequences(9).await.unwrap().is_empty());
}

pub(crate) async fn operators_take_jobs_out_of_a_sequence<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let act = async |action: Action, id: JobId| db.operator.act(&action, &[id], "ann").await.unwrap()[0];
    let ids = enqueue_all(&f, vec![ordered("x"); 6]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(act(Action::Cancel, ids[0]).await, Operated::Done);
    assert_eq!(act(Action::Delete, ids[1]).await, Operated::Done);
    assert_eq!(act(Action::Discard, ids[2]).await, Operated::Done);
    assert_eq!(state(db, ids[0]).await, Cancelled);
    assert!(db.operator.halted_sequences(9).await.unwrap().is_empty(), "it was not the turn of the discarded one");
    // A job that waits for its next attempt has the permit, and gives it back.
    for (place, action) in [(3, Action::Cancel), (4, Action::Delete)] {
        assert_eq!(admit(db).await, 1);
        let job = only(db, worker).await;
        assert_eq!(job.lease.job, ids[place]);
        assert!(finish(db, &job, retry_in(HOUR)).await);
        assert_eq!(sweep(db).await, 0);
        assert_eq!(act(action, ids[place]).await, Operated::Done);
    }
    assert_eq!(step(db, worker).await, ids[5]);
    // The job whose turn it is halts its sequence.
    let ids = enqueue_all(&f, vec![ordered("x"); 2]).await;
    assert_eq!(admit(db).await, 1);
    assert_eq!(act(Action::Discard, ids[0]).await, Operated::Done);
    assert_eq!(sweep(db).await, 0);
    assert_eq!(db.operator.halted_sequences(9).await.unwrap()[0].job, ids[0]);
}

pub(crate) async fn a_paused_job_stops_its_sequence_and_no_other<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    db.operator.pause_kind("b", "ann", None).await.unwrap();
    let mut paused = ordered("x");
    paused.kind = "b".into();
    let ids = enqueue_all(&f, vec![paused, ordered("x"), ordered("y")]).await;
    assert_eq!((sweep(db).await, sweep(db).await), (1, 0));
    let job = only(db, worker).await;
    assert_eq!(job.lease.job, ids[2]);
    assert!(finish(db, &job, DONE).await);
    db.operator.resume_kind("b", "ann").await.unwrap();
    assert_eq!(sweep(db).await, 1);
    assert_eq!((state(db, ids[0]).await, state(db, ids[1]).await), (Available, Held));
}

pub(crate) async fn a_sweep_finds_sequences_without_a_nudge<F: Fixture>(f: F) {
    let db = f.database();
    let ids =
        enqueue_all(&f, vec![ordered("x"), ordered("x"), ordered("y"), job().rule(Limit::new("stripe", 2)).unwrap()])
            .await;
    f.client().await.execute(&format!("delete from {}", F::table("nudge"))).await.unwrap();
    assert_eq!(admit(db).await, 0);
    assert_eq!(sweep(db).await, 3);
    assert_eq!(state(db, ids[1]).await, Held);
    let reason = why(db, ids[1]).await;
    assert!(reason.text.contains(&format!("job {} has not ended", ids[0])), "{}", reason.text);
}

/// Four workers run the jobs of three sequences, in all ways. Each job starts after its predecessor has ended.
pub(crate) async fn the_order_holds_beside_other_workers<F: Fixture>(f: F) {
    const JOBS: usize = 120;
    let keys = ["x", "y", "z"];
    let ids = enqueue_all(&f, (0..JOBS).map(|number| ordered(keys[number % 3])).collect()).await;
    let ended = std::sync::Mutex::new(Vec::new());
    let mut databases = Vec::new();
    for _ in 0..4 {
        databases.push(f.again().await);
    }
    let work = |number: usize, db: Database| {
        let ended = &ended;
        async move {
            let worker = worker(&db).await;
            let mut step = number;
            while ended.lock().unwrap().len() < JOBS {
                db.storage.admit(step.is_multiple_of(3)).await.unwrap();
                for job in claim(&db, worker, 3).await {
                    step += 1;
                    let transition = match step % 4 {
                        0 => retry_in(Duration::ZERO),
                        1 => Transition::Release,
                        2 => Transition::Snooze(Duration::ZERO),
                        _ => DONE,
                    };
                    if step % 4 == 3 {
                        ended.lock().unwrap().push(job.lease.job);
                    }
                    while !finish(&db, &job, transition.clone()).await {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    };
    let mut workers = databases.into_iter().enumerate().map(|(number, db)| work(number, db));
    let (one, two, three, four) =
        (workers.next().unwrap(), workers.next().unwrap(), workers.next().unwrap(), workers.next().unwrap());
    tokio::join!(one, two, three, four);
    let ended = ended.into_inner().unwrap();
    for key in 0..3 {
        let of_key = |id: &&JobId| ids.iter().position(|other| other == *id).unwrap() % 3 == key;
        let order: Vec<&JobId> = ended.iter().filter(of_key).collect();
        assert!(order.is_sorted(), "{order:?}");
    }
    let permits = format!("select count(*) as number from {}", F::table("permit"));
    assert_eq!(f.client().await.number(&permits).await, 0);
}
