//! The storage port: the verbs that the worker needs from a database. Each runs in a span with its name and its
//! duration.

mod claim;
pub(crate) mod instrumented;
mod notifications;
mod operator;
mod rescue;
mod schedules;
mod transaction;

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::storage_error::StorageError;

// The types that the verbs take and return, so that the author of a storage needs no other module.
pub use crate::handler::AnyConnection;
pub use crate::installation::{Freeze, Installation};
pub use crate::job::JobId;
pub use crate::lease::{ClaimedJob, Lease, WorkerId};
pub use crate::new_job::{Column, NewJob};
pub use crate::outcome::{Finish, Keep, Retention, Transition};
pub use crate::record::MAX_ERRORS_PER_JOB;
pub use claim::{Claim, Wanted};
pub use notifications::Notifications;
pub use operator::{CANCELLED, CANCELLED_WITH_ALL, JobFilter, Operated, Operator};
pub use rescue::{
    CRASHED_TOO_OFTEN, Crashed, NO_ATTEMPT_LEFT, QUARANTINED_COUNTS, RUNS_ALONE, RescuePolicy, Rescued, Rescuer,
    Verdict, WORKERS_FOR_A_QUARANTINED_JOB, quarantined_at_once,
};
pub use schedules::{DeclaredSchedule, Schedules, StoredSchedule};
pub use transaction::{AsyncBody, BlockingBody, Body, Transacted, Transaction};

/// The result of a storage verb.
pub type StorageResult<T> = Result<T, StorageError>;

/// A worker process. It is registered at its start and kept alive by heartbeats.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Identifies this start of this process.
    pub id: WorkerId,
    /// The name of the machine.
    pub host: String,
    /// The id of the process.
    pub pid: u32,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// How long after its last heartbeat its jobs may be given to others.
    pub lease: Duration,
}

/// Why a rescan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescanReason {
    /// It is time for one. A storage that knows that it would find nothing may skip it.
    Routine,
    /// Jobs are known to have come back, or a hint led to an empty claim.
    CameBack,
}

/// The result of a rescan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescanned {
    /// There was no straggler.
    Nothing,
    /// There were stragglers, and claims see them now.
    Found,
    /// Too many workers rescan at the moment, so it is unknown whether there are stragglers.
    Refused,
}

/// What the database answers to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The database's time.
    pub at: DateTime<Utc>,
    /// Whether the database is [frozen](Installation::frozen).
    pub frozen: bool,
}

/// A worker's own connection for heartbeats, on a separate thread.
#[async_trait]
pub trait Heartbeat: Send {
    /// Tells the database that the worker is alive. Returns `None` if it was declared dead: then all its leases are
    /// lost.
    async fn beat(&mut self) -> StorageResult<Option<Beat>>;
}

/// What the worker needs from a database.
#[async_trait]
pub trait Storage: Schedules + Notifications + 'static {
    /// The name of the database, for messages.
    fn name(&self) -> &'static str;

    /// Whether transactional handlers may ask for this connection type.
    fn provides(&self, connection: TypeId) -> bool;

    /// Fails unless this program can serve the schema: its own version, or a later version that allows this program.
    /// Returns what holds for all workers of this database: its environment, and whether it is frozen.
    ///
    /// While the database is frozen, [`claim`](Self::claim), [`next_due`](Self::next_due), [`tick`](Schedules::tick)
    /// and [`prune`](Self::prune) find nothing to do. Everything else goes on.
    async fn check_schema(&self) -> StorageResult<Installation>;

    /// Registers the worker. Its heartbeat starts now.
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()>;

    /// Removes the worker from the list. Its leases must be finished or released before that.
    async fn deregister(&self, worker: WorkerId) -> StorageResult<()>;

    /// Opens the worker's connection for heartbeats, on the calling runtime.
    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>>;

    /// Claims due jobs, at most as many as wanted, best first. Each job's attempt and lease number grow by one.
    /// Quarantined jobs are left out. Returns none while too many other workers claim (the claim limit). Then
    /// [`next_due`](Self::next_due) still tells that something is due.
    ///
    /// If a [quarantined](Claim::quarantined) job is asked for, claims the best one that is due. Its kind must be one
    /// of these, and its queue must have a slot for it. Returns none if [enough](quarantined_at_once) quarantined jobs
    /// are running that were claimed within the last two minutes.
    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>>;

    /// How long until the earliest waiting job of these queues and kinds is due, not counting quarantined jobs. `None`
    /// if no such job waits, or none becomes due `within` this time: a storage need not look farther ahead.
    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>>;

    /// Looks for stragglers: jobs that [`claim`](Self::claim) and [`next_due`](Self::next_due) do not see, because they
    /// came to places that the storage regards as empty. After the rescan both see them. It runs in parallel with both
    /// and may take long. A storage whose claims see all jobs has nothing to do here.
    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned>;

    /// Applies transitions in one transaction. It applies each only if its lease still stands and no other session has
    /// locked its row, so it never waits for a lock. Returns the jobs that were moved. The others have lost their
    /// lease, or their row is locked: [`leases`](Self::leases) tells which.
    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>>;

    /// The leases of this worker that stand, as job and lease number. If `among` is given, leases of other jobs may be
    /// left out.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>>;

    /// Runs a handler inside the transaction that finishes its job.
    async fn transact(&self, transaction: Transaction) -> Transacted;

    /// Frees the jobs of workers whose lease ran out, and counts a crash on each. If several jobs were with one worker,
    /// it is unknown which of them caused the crash. Such jobs are quarantined at most, not discarded.
    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued>;

    /// Deletes finished jobs whose retention is over, at most `limit`. Returns how many.
    async fn prune(&self, limit: usize) -> StorageResult<usize>;
}
