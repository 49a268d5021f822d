//! A storage with a span around each operation. The span is `storage`, with the operation's name and its duration. The
//! recorders of the worker get an event for each operation.

use std::any::TypeId;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::refusals::Refusals;
use super::{
    Admission, Beat, Chore, Claim, DeclaredRules, DeclaredSchedule, DiscardRule, Ends, Finished, Heartbeat, Leases,
    Loaded, Loading, Maintained, PassOn, Polled, RescanReason, Rescanned, RescuePolicy, Rescued, Storage,
    StorageResult, StoredSchedule, StoredSchedules, Transacted, Transaction, WaitEnd, Waiting, WorkerInfo,
};
use crate::history::HistoryBatch;
use crate::installation::Installation;
use crate::job_id::JobId;
use crate::lease::{ClaimedJob, Lease, WorkerId};
use crate::new_job::NewJob;
use crate::outcome::{Finish, Retention};
use crate::overrides::Overrides;
use crate::progress::ProgressReport;
use crate::recorder::{Event, Recorders};
use crate::storage_error::StorageError;
use crate::telemetry;

pub(crate) struct Instrumented {
    storage: Arc<dyn Storage>,
    recorders: Recorders,
    refusals: Arc<Refusals>,
}

impl Instrumented {
    pub(crate) fn new(storage: Arc<dyn Storage>, recorders: Recorders, refusals: Arc<Refusals>) -> Self {
        Self { storage, recorders, refusals }
    }

    /// Runs an operation, and notes whether the server refuses the credentials.
    async fn timed<T: Answer>(&self, operation: &'static str, work: impl Future<Output = T>) -> T {
        let answer = timed(&self.recorders, operation, work).await;
        self.refusals.observe(answer.error(), Instant::now());
        answer
    }
}

/// An answer of the storage.
trait Answer {
    /// The error, if it is one.
    fn error(&self) -> Option<&StorageError>;
}

impl<T> Answer for StorageResult<T> {
    fn error(&self) -> Option<&StorageError> {
        self.as_ref().err()
    }
}

impl Answer for Transacted {
    fn error(&self) -> Option<&StorageError> {
        match self {
            Self::NotBegun(problem) | Self::Unknown(problem) => Some(problem),
            _ => None,
        }
    }
}

impl Answer for Loaded {
    fn error(&self) -> Option<&StorageError> {
        match self {
            Self::NotLoaded(problem) => Some(problem),
            _ => None,
        }
    }
}

/// Runs an operation in its own span and measures it. Without a recorder and a subscriber that is interested, this
/// costs only the check of two flags.
async fn timed<T: Answer>(recorders: &Recorders, operation: &'static str, work: impl Future<Output = T>) -> T {
    let span = telemetry::storage_span(operation);
    if span.is_disabled() && recorders.is_empty() {
        return work.await;
    }
    let begun = Instant::now();
    let answer = work.instrument(span.clone()).await;
    let took = begun.elapsed();
    span.record("storage.ms", took.as_secs_f64() * 1000.0);
    let error = answer.error().map(StorageError::name);
    recorders.record(|| Event::StorageOperation { operation, took, error });
    answer
}

#[async_trait]
impl Storage for Instrumented {
    fn name(&self) -> &'static str {
        self.storage.name()
    }

    async fn check_schema(&self) -> StorageResult<Installation> {
        self.timed("check_schema", self.storage.check_schema()).await
    }

    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>> {
        self.timed("claim", self.storage.claim(claim)).await
    }

    async fn next_due(&self, claim: &Claim, waiting: Waiting) -> StorageResult<Option<Duration>> {
        let operation = match waiting {
            Waiting::Available { .. } => "next_due",
            Waiting::Held => "next_held",
            Waiting::Token => "next_token",
        };
        self.timed(operation, self.storage.next_due(claim, waiting)).await
    }

    async fn poll(&self, claim: &Claim, within: Duration) -> StorageResult<Polled> {
        // To all who measure, it is the same question.
        self.timed("next_due", self.storage.poll(claim, within)).await
    }

    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned> {
        self.timed("rescan", self.storage.rescan(claim, reason)).await
    }

    async fn finish(&self, batch: &[Finish], pass_on: PassOn<'_>) -> StorageResult<Finished> {
        self.timed("finish", self.storage.finish(batch, pass_on)).await
    }

    async fn overrides(&self) -> StorageResult<Overrides> {
        self.timed("overrides", self.storage.overrides()).await
    }

    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Leases> {
        self.timed("leases", self.storage.leases(worker, among)).await
    }

    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()> {
        self.timed("store_progress", self.storage.store_progress(reports)).await
    }

    async fn record_history(&self, batch: &HistoryBatch) -> StorageResult<()> {
        self.timed("record_history", self.storage.record_history(batch)).await
    }

    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued> {
        self.timed("rescue", self.storage.rescue(policy)).await
    }

    async fn rescue_is_due(&self) -> StorageResult<bool> {
        self.timed("rescue_is_due", self.storage.rescue_is_due()).await
    }

    async fn maintain(&self, chore: Chore, limit: usize) -> StorageResult<Maintained> {
        self.timed(chore.as_str(), self.storage.maintain(chore, limit)).await
    }

    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()> {
        self.timed("register", self.storage.register(worker)).await
    }

    async fn deregister(&self, worker: WorkerId) -> StorageResult<()> {
        self.timed("deregister", self.storage.deregister(worker)).await
    }

    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>> {
        let heartbeat = self.timed("open_heartbeat", self.storage.open_heartbeat(worker)).await?;
        Ok(Box::new(InstrumentedHeartbeat { heartbeat, recorders: self.recorders.clone() }))
    }

    fn provides(&self, connection: TypeId) -> bool {
        self.storage.provides(connection)
    }

    fn connections(&self) -> Option<usize> {
        self.storage.connections()
    }

    async fn transact(&self, transaction: Transaction) -> Transacted {
        self.timed("transact", self.storage.transact(transaction)).await
    }

    async fn load(&self, loading: Loading) -> Loaded {
        self.timed("load", self.storage.load(loading)).await
    }

    async fn admit(&self, sweeps: bool) -> StorageResult<Admission> {
        self.timed("admit", self.storage.admit(sweeps)).await
    }

    async fn end_waiting(&self, end: WaitEnd, retention: Retention) -> StorageResult<Ends> {
        let operation = match end {
            WaitEnd::Expired => "expire",
            WaitEnd::LimitFull => "end_full",
        };
        self.timed(operation, self.storage.end_waiting(end, retention)).await
    }

    async fn schedules(&self, declared: &[DeclaredSchedule]) -> StorageResult<StoredSchedules> {
        let operation = if declared.is_empty() { "schedules" } else { "declare_schedules" };
        self.timed(operation, self.storage.schedules(declared)).await
    }

    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        self.timed("declare_discard_rules", self.storage.declare_discard_rules(kinds, rules)).await
    }

    async fn tick(&self, schedule: &StoredSchedule, last_tick: DateTime<Utc>, jobs: &[NewJob]) -> StorageResult<bool> {
        self.timed("tick", self.storage.tick(schedule, last_tick, jobs)).await
    }

    async fn waiting_queues(&self, waiting: Waiting) -> StorageResult<Vec<String>> {
        self.timed("waiting_queues", self.storage.waiting_queues(waiting)).await
    }

    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()> {
        self.timed("set_idle", self.storage.set_idle(worker, idle)).await
    }

    // It runs as long as the worker lives, so it is not timed.
    async fn listen(&self, queues: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken) {
        self.storage.listen(queues, wake, admission, stop).await;
    }
}

struct InstrumentedHeartbeat {
    heartbeat: Box<dyn Heartbeat>,
    recorders: Recorders,
}

#[async_trait]
impl Heartbeat for InstrumentedHeartbeat {
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>> {
        // A heartbeat goes through a connection that is open, so it says nothing about the credentials.
        timed(&self.recorders, "beat", self.heartbeat.beat(drains, lease)).await
    }

    async fn leases(&mut self) -> StorageResult<Vec<(JobId, i32)>> {
        timed(&self.recorders, "leases", self.heartbeat.leases()).await
    }

    async fn release(&mut self, leases: &[Lease]) -> StorageResult<Vec<JobId>> {
        timed(&self.recorders, "finish", self.heartbeat.release(leases)).await
    }
}
