//! A storage with a span around each operation. The span is `storage`, with the operation's name and its duration.

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Beat, Claim, DeclaredSchedule, Heartbeat, Loaded, Loading, Notifications, RescanReason, Rescanned, RescuePolicy,
    Rescued, Schedules, Storage, StorageResult, StoredSchedule, Transacted, Transaction, WorkerInfo,
};
use crate::discarded::DiscardRule;
use crate::installation::Installation;
use crate::job_id::JobId;
use crate::lease::{ClaimedJob, WorkerId};
use crate::new_job::NewJob;
use crate::outcome::Finish;
use crate::progress::ProgressReport;
use crate::telemetry::timed;

pub(crate) struct Instrumented(pub(crate) Arc<dyn Storage>);

#[async_trait]
impl Storage for Instrumented {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn provides(&self, connection: TypeId) -> bool {
        self.0.provides(connection)
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        timed("check_schema", self.0.check_schema()).await
    }

    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        timed("register", self.0.register(worker)).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        timed("deregister", self.0.deregister(worker)).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        let heartbeat = timed("open_heartbeat", self.0.open_heartbeat(worker)).await?;
        Ok(Box::new(InstrumentedHeartbeat(heartbeat)))
    }

    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        timed("claim", self.0.claim(claim)).await
    }

    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>> {
        timed("next_due", self.0.next_due(claim, within)).await
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<()> {
        timed("declare_discard_rules", self.0.declare_discard_rules(kinds, rules)).await
    }

    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        timed("rescan", self.0.rescan(claim, reason)).await
    }

    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>> {
        timed("finish", self.0.finish(batch)).await
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>> {
        timed("leases", self.0.leases(worker, among)).await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        timed("store_progress", self.0.store_progress(reports)).await
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        timed("transact", self.0.transact(transaction)).await
    }

    async fn load(&self, loading: Loading) -> Loaded {
        timed("load", self.0.load(loading)).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        timed("rescue", self.0.rescue(policy)).await
    }

    async fn prune(&self, limit: usize) -> StorageResult<usize> {
        timed("prune", self.0.prune(limit)).await
    }
}

#[async_trait]
impl Schedules for Instrumented {
    async fn declare_schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<bool> {
        timed("declare_schedules", self.0.declare_schedules(declared)).await
    }

    async fn schedules(&self) -> StorageResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
        timed("schedules", self.0.schedules()).await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        timed("tick", self.0.tick(schedule, last_tick, jobs)).await
    }
}

#[async_trait]
impl Notifications for Instrumented {
    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()> {
        timed("set_idle", self.0.set_idle(worker, idle)).await
    }

    // It runs as long as the worker lives, so it is not timed.
    async fn listen(&self, queues: &[String], wake: Arc<Notify>, stop: CancellationToken) {
        self.0.listen(queues, wake, stop).await;
    }
}

struct InstrumentedHeartbeat(Box<dyn Heartbeat>);

#[async_trait]
impl Heartbeat for InstrumentedHeartbeat {
    async fn beat(&mut self) -> StorageResult<Option<Beat>> {
        timed("beat", self.0.beat()).await
    }
}
