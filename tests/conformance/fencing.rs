//! A finish with a lost lease writes nothing.

use std::time::Duration;

use diesel_jobs_core::storage::Operated;
use diesel_jobs_core::{ClaimedJob, Finish, JobState, Keep, Lease, Transition, WorkerId};
use diesel_jobs_storage::migrations::LiveJobs;

use crate::bench::*;
use crate::fixture::{Fixture, Inspect, Port};

fn every_transition() -> Vec<Transition> {
    vec![
        DONE,
        Transition::Complete(Keep::Nothing),
        retry_in(Duration::ZERO),
        Transition::Snooze(Duration::ZERO),
        Transition::Release,
        cancel(),
        discard(),
    ]
}

/// Checks that every transition with `lease` is refused, and that the job stays unchanged under the lease of `stands`.
async fn is_refused(db: &impl Inspect, lease: Lease, stands: &ClaimedJob) {
    let refused = ClaimedJob { lease, ..stands.clone() };
    let before = show(db, lease.job).await.unwrap();
    for transition in every_transition() {
        let name = transition.name();
        assert!(!finish(db, &refused, transition).await, "{name} with {lease:?}");
    }
    let after = show(db, lease.job).await.unwrap();
    assert_eq!((after.0.state, after.0.worker), (JobState::Running, Some(stands.lease.worker)));
    assert_eq!(
        (after.0.attempt, after.0.run_at, after.0.claimed_at),
        (before.0.attempt, before.0.run_at, before.0.claimed_at)
    );
    assert_eq!(after.1.len(), before.1.len(), "no failure was recorded");
    assert!(finish(db, stands, DONE).await, "the lease that is still held may finish");
}

pub(crate) async fn a_heartbeat_knows_and_releases_valid_leases_only<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let old = claimed(&f, worker, job()).await;
    assert!(finish(db, &old, retry_in(Duration::ZERO)).await);
    let new = claim(db, worker, 1).await.remove(0);
    let mut heartbeat = db.storage().open_heartbeat(worker).await.unwrap();
    let Lease { job, number, .. } = new.lease;
    assert_eq!(heartbeat.leases().await.unwrap(), [(job, number)]);
    let of_another = Lease { worker: WorkerId::generate(), ..new.lease };
    assert!(heartbeat.release(&[old.lease, of_another]).await.unwrap().is_empty());
    assert_eq!(heartbeat.release(&[new.lease]).await.unwrap(), [job]);
    let (record, _) = show(db, job).await.unwrap();
    assert_eq!((record.state, record.attempt, record.crashes), (JobState::Available, 1, 0), "no attempt is consumed");
    assert_eq!(heartbeat.leases().await.unwrap(), []);
}

pub(crate) async fn an_older_lease_is_refused<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let old = claimed(&f, worker, job()).await;
    assert!(finish(db, &old, retry_in(Duration::ZERO)).await);
    let new = claim(db, worker, 1).await.remove(0);
    is_refused(db, old.lease, &new).await;
}

pub(crate) async fn another_workers_lease_is_refused<F: Port>(f: F) {
    let db = f.database();
    let (owner, other) = (worker(db).await, worker(db).await);
    let job = claimed(&f, owner, job()).await;
    is_refused(db, Lease { worker: other, ..job.lease }, &job).await;
    let job = claimed(&f, owner, crate::bench::job()).await;
    is_refused(db, Lease { worker: WorkerId::generate(), ..job.lease }, &job).await;
}

pub(crate) async fn the_same_worker_at_the_same_attempt_after_a_snooze_is_refused<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for give_back in [Transition::Snooze(Duration::ZERO), Transition::Release] {
        let old = claimed(&f, worker, job()).await;
        assert!(finish(db, &old, give_back).await);
        let new = claim(db, worker, 1).await.remove(0);
        assert_eq!((new.attempt, new.lease.worker, new.lease.job), (old.attempt, old.lease.worker, old.lease.job));
        assert_ne!(new.lease, old.lease);
        is_refused(db, old.lease, &new).await;
    }
}

pub(crate) async fn a_second_finish_of_the_same_lease_is_refused<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for first in every_transition() {
        let job = claimed(&f, worker, with(|job| job.priority = 1)).await;
        let id = job.lease.job;
        let kept = first != Transition::Complete(Keep::Nothing);
        assert!(finish(db, &job, first).await);
        let before = show(db, id).await;
        for second in every_transition() {
            assert!(!finish(db, &job, second).await);
        }
        let after = show(db, id).await;
        assert_eq!(after.is_some(), kept);
        if let (Some(before), Some(after)) = (before, after) {
            assert_eq!(
                (after.0.state, after.0.attempt, after.1.len()),
                (before.0.state, before.0.attempt, before.1.len())
            );
            db.operator.cancel(id).await.unwrap();
        }
    }
}

pub(crate) async fn a_batch_leaves_out_lost_leases_and_moves_the_others<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    enqueue_all(&f, vec![job(); 4]).await;
    let jobs = claim(db, worker, 4).await;
    assert_eq!(db.operator.cancel(jobs[1].lease.job).await.unwrap(), Operated::Done);
    let mut batch: Vec<Finish> = jobs.iter().map(|job| Finish::new(job, DONE)).collect();
    batch[2].lease.number -= 1;
    let mut moved = db.storage.finish_all(&batch).await.unwrap();
    moved.sort();
    assert_eq!(moved, [jobs[0].lease.job, jobs[3].lease.job]);
    assert_eq!(state(db, jobs[1].lease.job).await, JobState::Cancelled);
    assert_eq!(state(db, jobs[2].lease.job).await, JobState::Running);
}

pub(crate) async fn a_batch_of_completions_leaves_out_what_has_ended_already<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    for transition in [DONE, Transition::Complete(Keep::Nothing)] {
        enqueue_all(&f, vec![job(); 4]).await;
        let jobs = claim(db, worker, 4).await;
        assert!(finish(db, &jobs[0], transition.clone()).await);
        assert_eq!(db.operator.cancel(jobs[1].lease.job).await.unwrap(), Operated::Done);
        let finish = |job: &ClaimedJob| Finish::new(job, transition.clone());
        let batch: Vec<Finish> = jobs.iter().map(finish).collect();
        let mut moved = db.storage.finish_all(&batch).await.unwrap();
        moved.sort();
        assert_eq!(moved, [jobs[2].lease.job, jobs[3].lease.job]);
        assert_eq!(db.storage.finish_all(&batch).await.unwrap(), []);
    }
}

pub(crate) async fn a_refused_finish_writes_nothing<F: Port>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, job()).await;
    is_refused(db, Lease { number: job.lease.number + 1, ..job.lease }, &job).await;
    let gone = Lease { job: diesel_jobs_core::JobId(job.lease.job.0 + 1000), ..job.lease };
    assert!(!finish(db, &ClaimedJob { lease: gone, ..job }, discard()).await);
    assert!(show(db, gone.job).await.is_none());
}

pub(crate) async fn a_cancelled_job_refuses_its_worker<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let job = claimed(&f, worker, job()).await;
    assert_eq!(db.operator.cancel(job.lease.job).await.unwrap(), Operated::Done);
    for transition in every_transition() {
        assert!(!finish(db, &job, transition).await);
    }
    assert_eq!(state(db, job.lease.job).await, JobState::Cancelled);
    // The old lease does not fit either after an operator's retry of the job.
    assert_eq!(db.operator.retry(job.lease.job).await.unwrap(), Operated::Done);
    let again = claim(db, worker, 1).await.remove(0);
    is_refused(db, job.lease, &again).await;
}

pub(crate) async fn lease_numbers_never_fall<F: Fixture>(f: F) {
    let db = f.database();
    let worker = worker(db).await;
    let mut job = claimed(&f, worker, job()).await;
    for transition in
        [Transition::Snooze(Duration::ZERO), Transition::Release, retry_in(Duration::ZERO), discard(), cancel()]
    {
        let ends = transition.name() == "discard" || transition.name() == "cancel";
        assert!(finish(db, &job, transition).await);
        let lease = job.lease;
        if ends {
            assert_eq!(db.operator.retry(lease.job).await.unwrap(), Operated::Done);
        }
        job = claim(db, worker, 1).await.remove(0);
        assert!(job.lease.job == lease.job && job.lease.number > lease.number, "{} after {lease}", job.lease);
    }
}

pub(crate) async fn the_idempotency_key_stays_whatever_becomes_of_the_job_and_comes_once<F: Fixture>(f: F) {
    let db = f.database();
    let first = claimed(&f, worker(db).await, job()).await;
    let (id, key) = (first.lease.job, context(&first).idempotency_key());
    assert_eq!(key, format!("job-{id}-{}", record(db, id).await.enqueued_at.timestamp_micros()));
    let (mut running, stays) = (first, async |running: ClaimedJob, transition| {
        assert!(finish(db, &running, transition).await);
        if !matches!(record(db, id).await.state, JobState::Available) {
            assert_eq!(db.operator.retry(id).await.unwrap(), Operated::Done);
        }
        let again = claim(db, worker(db).await, 1).await.remove(0);
        assert_eq!(context(&again).idempotency_key(), key);
        again
    });
    for transition in
        [retry_in(Duration::ZERO), Transition::Snooze(Duration::ZERO), Transition::Release, cancel(), discard()]
    {
        running = stays(running, transition).await;
    }
    // An operator retries a job that waits, and a job is rescued.
    assert!(finish(db, &running, Transition::Release).await);
    assert_eq!(db.operator.retry(id).await.unwrap(), Operated::Done);
    assert_eq!(ids(&claim(db, mortal(db).await, 1).await), [id]);
    assert_eq!(rescue(db, POLICY).await.returned, [id]);
    let again = claim(db, worker(db).await, 1).await.remove(0);
    assert_eq!(context(&again).idempotency_key(), key);
    // The tables are created again, and the same id is assigned again.
    while db.migrator.down(LiveJobs::Delete).await.unwrap().is_some() {}
    db.migrator.up().await.unwrap();
    let other = claimed(&f, worker(db).await, job()).await;
    assert_eq!(other.lease.job, id);
    assert_ne!(context(&other).idempotency_key(), key);
}
