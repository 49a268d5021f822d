//! A storage that reports how long its claims take.

use std::any::TypeId;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_jobs::storage::{
    Admission, Cancelled, Claim, Connections, DeclaredSchedule, EndedByLimit, ExpiredJob, Finished, Heartbeat, Limits,
    Loaded, Loading, Notifications, OperationId, OperationRecord, Operations, Overrides, Registration, RescanReason,
    Rescanned, RescuePolicy, Rescued, Sampling, Schedules, Statistics, Storage, StorageResult, StoredSchedule,
    Transacted, Transaction, WorkerInfo,
};
use diesel_jobs::{Installation, JobId, NewJob, Retention, WorkerId};
use diesel_jobs_core::history::{Fold, HistoryBatch};
use diesel_jobs_core::{ClaimedJob, DiscardRule, Finish, ProgressReport};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::say::say;

pub(super) struct Timed(pub(super) Arc<dyn Storage>);

#[async_trait]
impl Storage for Timed {
    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        let begun = Instant::now();
        let jobs = self.0.claim(claim).await;
        say(&format!("claimed {}", begun.elapsed().as_micros()));
        jobs
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        self.0.check_schema().await
    }

    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>> {
        self.0.cancelled(jobs).await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        self.0.store_progress(reports).await
    }

    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>> {
        self.0.next_due(claim, within).await
    }

    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        self.0.rescan(claim, reason).await
    }

    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>> {
        self.0.finish(batch).await
    }

    async fn finish_and_pass_on(&self, batch: &[Finish], next: Option<&Claim>) -> StorageResult<Finished> {
        self.0.finish_and_pass_on(batch, next).await
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        self.0.overrides().await
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        self.0.leases(worker, among).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        self.0.rescue(policy).await
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        self.0.prune(limit).await
    }
}

#[async_trait]
impl Registration for Timed {
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        self.0.register(worker).await
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<()> {
        self.0.declare_discard_rules(kinds, rules).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.0.deregister(worker).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        self.0.open_heartbeat(worker).await
    }
}

#[async_trait]
impl Connections for Timed {
    fn provides(&self, connection: TypeId) -> bool {
        self.0.provides(connection)
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        self.0.transact(transaction).await
    }

    async fn load(&self, loading: Loading) -> Loaded {
        self.0.load(loading).await
    }
}

#[async_trait]
impl Statistics for Timed {
    async fn record_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        self.0.record_history(batch).await
    }

    async fn fold_history(&self, fold: Fold, limit: usize) -> StorageResult<usize> {
        self.0.fold_history(fold, limit).await
    }

    async fn prune_history(&self, keep: Duration, limit: usize) -> StorageResult<usize> {
        self.0.prune_history(keep, limit).await
    }

    async fn sample_jobs(&self) -> StorageResult<(Sampling, Duration)> {
        self.0.sample_jobs().await
    }
}

#[async_trait]
impl Operations for Timed {
    async fn step_operation(&self, only: Option<OperationId>, limit: usize) -> StorageResult<Option<OperationRecord>> {
        self.0.step_operation(only, limit).await
    }
}

#[async_trait]
impl Limits for Timed {
    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        self.0.admit(sweeps).await
    }

    async fn expire(&self, keep: Duration) -> StorageResult<Vec<ExpiredJob>> {
        self.0.expire(keep).await
    }

    async fn end_full(&self, retention: Retention) -> StorageResult<Vec<EndedByLimit>> {
        self.0.end_full(retention).await
    }

    async fn next_held(&self, claim: &Claim) -> StorageResult<Option<Duration>> {
        self.0.next_held(claim).await
    }
}

#[async_trait]
impl Schedules for Timed {
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool> {
        self.0.declare_schedules(declared).await
    }

    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
        self.0.schedules().await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        self.0.tick(schedule, last_tick, jobs).await
    }
}

#[async_trait]
impl Notifications for Timed {
    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()> {
        self.0.set_idle(worker, idle).await
    }

    async fn listen(&self, queues: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        self.0.listen(queues, wake, admission, stop).await;
    }
}
