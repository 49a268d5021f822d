//! The port: what the worker needs of a database, a short list of verbs. Each runs in a span that tells its name and its time.

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

// What the verbs take and answer: who writes a storage needs no other module.
pub use crate::handler::AnyConnection;
pub use crate::installation::{Freeze, Installation};
pub use crate::job::JobId;
pub use crate::lease::{ClaimedJob, Lease, WorkerId};
pub use crate::new_job::NewJob;
pub use crate::outcome::{Finish, Keep, Retention, Transition};
pub use claim::{Claim, Wanted};
pub use notifications::Notifications;
pub use operator::{JobFilter, Operated, Operator};
pub use rescue::{RescuePolicy, Rescued, Rescuer, WORKERS_FOR_A_QUARANTINED_JOB, quarantined_at_once};
pub use schedules::{DeclaredSchedule, Schedules, StoredSchedule};
pub use transaction::{AsyncBody, BlockingBody, Body, Transacted, Transaction};

/// The answer of a storage.
pub type StorageResult<T> = Result<T, StorageError>;

/// Who works: registered at start-up, kept alive by heartbeats.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// This start of this process.
    pub id: WorkerId,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// How long after its last heartbeat its jobs may be given to others.
    pub lease: Duration,
}

/// Why a rescan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescanReason {
    /// Because it is time. A storage that knows that it would find nothing may leave it out.
    Routine,
    /// Because jobs are known to have come back, or a hint led to nothing.
    CameBack,
}

/// What a rescan came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescanned {
    /// There was nothing.
    Nothing,
    /// There was something, and claims see it now.
    Found,
    /// Others look, and only so many may: nobody knows.
    Refused,
}

/// What the database answers to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Its time.
    pub at: DateTime<Utc>,
    /// Whether it is [frozen](Installation::frozen).
    pub frozen: bool,
}

/// A worker's own line to the database, alive on a thread of its own.
#[async_trait]
pub trait Heartbeat: Send {
    /// Says that the worker lives. `None`: it was declared dead, and all its leases are gone.
    async fn beat(&mut self) -> StorageResult<Option<Beat>>;
}

/// What the worker needs of a database.
#[async_trait]
pub trait Storage: Schedules + Notifications + 'static {
    /// The name of the database, for messages.
    fn name(&self) -> &'static str;

    /// Whether transactional handlers may ask for this connection type.
    fn provides(&self, connection: TypeId) -> bool;

    /// Fails unless this program can serve the schema: its own version, or a later one that says so. Answers what holds for all
    /// workers of this database: its environment, and whether it is frozen. While it is, [`claim`](Self::claim),
    /// [`next_due`](Self::next_due), [`tick`](Schedules::tick) and [`prune`](Self::prune) find nothing to do; everything else
    /// goes on.
    async fn check_schema(&self) -> StorageResult<Installation>;

    /// Makes the worker known; its heartbeat starts now.
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()>;

    /// Takes the worker off the list. Its leases must be finished or released before.
    async fn deregister(&self, worker: WorkerId) -> StorageResult<()>;

    /// Opens the worker's line for heartbeats, on the calling runtime.
    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>>;

    /// Leases due jobs, at most as many as wanted, best first: attempt + 1, lease number + 1. None of them quarantined. None
    /// while others are at it, if there are too many; [`next_due`](Self::next_due) then says that something is due.
    ///
    /// If a [quarantined](Claim::quarantined) job is asked for, it leases the best one that is due, of these kinds and of the queues
    /// with a slot for it, unless [enough](quarantined_at_once) run that were claimed within the last two minutes.
    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>>;

    /// How long until the earliest waiting job of these queues and kinds is due that is not quarantined; `None` when none waits,
    /// or none that is due `within` this time: a storage need not look farther ahead.
    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>>;

    /// Looks for jobs that [`claim`](Self::claim) and [`next_due`](Self::next_due) do not see, because they came to
    /// places the storage takes for empty; from now on they do. Runs beside them, and may take long. A storage whose
    /// claims see everything has nothing to do here.
    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned>;

    /// Applies transitions, all in one transaction, each only if its lease still stands and nobody else has locked its row: it
    /// never waits for a lock. Returns the jobs moved; the others lost their lease, or their row is locked:
    /// [`leases`](Self::leases) tells which.
    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>>;

    /// The leases of this worker that stand: job and lease number. `among` says which jobs matter; others may be left out.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>>;

    /// Runs a handler inside the transaction that finishes its job.
    async fn transact(&self, transaction: Transaction) -> Transacted;

    /// Frees the jobs of workers whose lease ran out, counting a crash on each. Of several that were with one worker nobody
    /// knows which it was: they are quarantined at most.
    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued>;

    /// Deletes finished jobs whose time has come, at most `limit`. Returns how many.
    async fn prune(&self, limit: usize) -> StorageResult<usize>;
}
