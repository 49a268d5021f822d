//! Small functions that the tests use.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::history::Fold;
use diesel_jobs_core::storage::{
    Cancelled, Chore, Claim, EndedWaiting, Maintained, PassOn, RescuePolicy, Rescued, Storage, StorageResult, WaitEnd,
    Waiting, Wanted, WorkerInfo,
};
use diesel_jobs_core::{
    AttemptError, ClaimedJob, Failure, FailureKind, Finish, JobContext, JobId, JobRecord, JobState, Keep, NewJob,
    Retention, RunAt, States, Transition, WorkerId,
};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, Inspect, Port};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// The lease of a worker that counts as dead at once.
pub(crate) const MORTAL: Duration = Duration::from_millis(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DONE: Transition = Transition::Complete(Keep::For(HOUR));

/// A job of kind `a` in the queue `default`.
pub(crate) fn job() -> NewJob {
    NewJob::raw("a", "{}")
}

pub(crate) fn with(change: impl FnOnce(&mut NewJob)) -> NewJob {
    let mut job = job();
    change(&mut job);
    job
}

pub(crate) fn later(delay: Duration) -> NewJob {
    with(|job| job.run_at = RunAt::After(delay))
}

pub(crate) fn failure(message: &str) -> Failure {
    Failure::new(FailureKind::Error, message)
}

pub(crate) fn retry_in(delay: Duration) -> Transition {
    Transition::Retry { delay, failure: failure("it did not work") }
}

pub(crate) fn discard() -> Transition {
    Transition::Discard { failure: failure("it never works"), keep: Keep::For(HOUR) }
}

pub(crate) fn cancel() -> Transition {
    Transition::Cancel { reason: Failure::new(FailureKind::Cancelled, "not wanted any more"), keep: Keep::For(HOUR) }
}

/// Returns a claim for the kinds `a` and `b`.
pub(crate) fn wants(worker: WorkerId, wanted: &[(&str, usize)]) -> Claim {
    let wanted = wanted.iter().map(|(queue, slots)| Wanted::new(*queue, *slots)).collect();
    Claim::new(worker, wanted, ["a".to_owned(), "b".to_owned()])
}

/// All jobs that may be claimed, however late they become due.
pub(crate) const ANY_TIME: Waiting = Waiting::Available { within: Duration::MAX };

/// Operations of the port, in the form that most tests need.
pub(crate) trait StorageExt {
    /// Finishes jobs whose permits are passed to no other job. Returns those that were moved.
    async fn finish_all(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>>;

    /// Returns which of these jobs were cancelled. The worker that asks has no lease of any.
    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>>;

    /// Cancels expired jobs, which are kept for this time.
    async fn expire(&self, keep: Duration) -> StorageResult<Vec<EndedWaiting>>;

    async fn prune(&self, limit: usize) -> StorageResult<usize>;

    async fn fold_history(&self, fold: Fold, limit: usize) -> StorageResult<usize>;

    async fn prune_history(&self, keep: Duration, limit: usize) -> StorageResult<usize>;

    async fn count_jobs(&self) -> StorageResult<Maintained>;
}

impl StorageExt for dyn Storage + '_ {
    async fn finish_all(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>> {
        Ok(self.finish(batch, PassOn::Nothing).await?.moved)
    }

    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>> {
        Ok(self.leases(WorkerId::generate(), Some(jobs)).await?.cancelled)
    }

    async fn expire(&self, keep: Duration) -> StorageResult<Vec<EndedWaiting>> {
        Ok(self.end_waiting(WaitEnd::Expired, Retention { cancelled: keep, ..POLICY.retention }).await?.ended)
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        Ok(self.maintain(Chore::Prune, limit).await?.rows)
    }

    async fn fold_history(&self, fold: Fold, limit: usize) -> StorageResult<usize> {
        Ok(self.maintain(Chore::FoldHistory(fold), limit).await?.rows)
    }

    async fn prune_history(&self, keep: Duration, limit: usize) -> StorageResult<usize> {
        Ok(self.maintain(Chore::PruneHistory(keep), limit).await?.rows)
    }

    async fn count_jobs(&self) -> StorageResult<Maintained> {
        self.maintain(Chore::SampleJobs, 1).await
    }
}

pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.lease.job).collect()
}

pub(crate) fn context(job: &ClaimedJob) -> JobContext {
    JobContext::new(job.clone(), CancellationToken::new(), Arc::new(States::default()))
}

pub(crate) const POLICY: RescuePolicy = RescuePolicy {
    max_crashes: 3,
    retention: Retention { completed: HOUR, cancelled: HOUR, discarded: HOUR },
    orphans: true,
    rescuer: None,
};

/// Registers a worker with a lease of this length.
pub(crate) async fn worker_for(db: &impl Inspect, lease: Duration) -> WorkerId {
    let id = WorkerId::generate();
    db.storage().register(&info(id, lease)).await.unwrap();
    id
}

pub(crate) fn info(id: WorkerId, lease: Duration) -> WorkerInfo {
    let (queues, kinds) = (vec!["default".to_owned()], vec!["a".to_owned(), "b".to_owned()]);
    WorkerInfo { host: "bench".to_owned(), pid: 4711, queues, kinds, ..WorkerInfo::new(id, lease) }
}

pub(crate) async fn worker(db: &impl Inspect) -> WorkerId {
    worker_for(db, HOUR).await
}

/// Registers a worker whose lease ends at once.
pub(crate) async fn mortal(db: &impl Inspect) -> WorkerId {
    worker_for(db, MORTAL).await
}

pub(crate) async fn enqueue<F: Port>(f: &F, job: NewJob) -> JobId {
    f.insert(vec![job]).await.remove(0)
}

pub(crate) async fn enqueue_all<F: Port>(f: &F, jobs: Vec<NewJob>) -> Vec<JobId> {
    f.insert(jobs).await
}

/// Claims from the queue `default`.
pub(crate) async fn claim(db: &impl Inspect, worker: WorkerId, slots: usize) -> Vec<ClaimedJob> {
    db.storage().claim(&wants(worker, &[("default", slots)])).await.unwrap()
}

/// Claims from the queue `default`: for `slots` free slots, and `prefetch` jobs in addition.
pub(crate) async fn claim_and_prefetch(
    db: &impl Inspect,
    worker: WorkerId,
    slots: usize,
    prefetch: usize,
) -> Vec<ClaimedJob> {
    let mut claim = wants(worker, &[("default", slots)]);
    claim.wanted[0].prefetch = prefetch;
    db.storage().claim(&claim).await.unwrap()
}

/// Enqueues a job and claims it.
pub(crate) async fn claimed<F: Port>(f: &F, worker: WorkerId, job: NewJob) -> ClaimedJob {
    let id = enqueue(f, job).await;
    let mut jobs = claim(f.database(), worker, 1).await;
    assert_eq!(ids(&jobs), [id]);
    jobs.remove(0)
}

/// Returns `false` if the lease was refused.
pub(crate) async fn finish(db: &impl Inspect, job: &ClaimedJob, transition: Transition) -> bool {
    let moved = db.storage().finish_all(&[Finish::new(job, transition)]).await.unwrap();
    assert!(moved.is_empty() || moved == [job.lease.job]);
    !moved.is_empty()
}

pub(crate) async fn show(db: &impl Inspect, id: JobId) -> Option<(JobRecord, Vec<AttemptError>)> {
    db.show(id).await
}

pub(crate) async fn record(db: &impl Inspect, id: JobId) -> JobRecord {
    show(db, id).await.expect("the job is there").0
}

pub(crate) async fn state(db: &impl Inspect, id: JobId) -> JobState {
    record(db, id).await.state
}

pub(crate) async fn failures(db: &impl Inspect, id: JobId) -> Vec<AttemptError> {
    show(db, id).await.expect("the job is there").1
}

/// The database's time.
pub(crate) async fn now(db: &impl Inspect) -> DateTime<Utc> {
    db.now().await
}

/// Whether two times differ by less than 30 s, for slow machines.
pub(crate) fn close(one: DateTime<Utc>, other: DateTime<Utc>) -> bool {
    (one - other).abs() < chrono::TimeDelta::seconds(30)
}

/// Repeats the rescue until it has rescued a job. The lease of a `mortal` worker ends within a moment.
pub(crate) async fn rescue(db: &impl Inspect, policy: RescuePolicy) -> Rescued {
    for _ in 0..200 {
        let mut rescued = db.storage().rescue(policy).await.unwrap();
        let discarded = rescued.attempts.drain(..).filter(|attempt| attempt.discarded).count();
        assert_eq!(discarded, rescued.discarded.len());
        if !rescued.returned.is_empty() || !rescued.discarded.is_empty() || !rescued.released.is_empty() {
            return rescued;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody was rescued");
}

/// Returns the number of effects with this name.
pub(crate) async fn effects<F: Fixture>(f: &F, name: &str) -> i64 {
    f.client().await.number(&format!("select count(*) as number from effect where name = '{name}'")).await
}
