//! The storage interface: the operations that the worker needs from a database. Each runs in a span with its name and
//! its duration.

mod action;
mod audit;
mod cancelled;
mod claim;
mod doctor;
mod explain;
mod failures;
mod filter;
mod filter_text;
mod flow_control;
mod history;
pub(crate) mod instrumented;
mod key_of_job;
mod limit_keys;
mod limit_setting;
mod limits;
mod loading;
mod notifications;
mod operations;
mod operator;
mod page;
mod rescue;
mod runtime_settings;
mod schedule_settings;
mod schedules;
mod search;
mod transaction;
mod when;
mod why;

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::storage_error::StorageError;

// The types that the operations take and return. The implementation of a storage needs no other module.
pub use crate::any_connection::AnyConnection;
pub use crate::asked::Asked;
pub use crate::discarded::DiscardRule;
pub use crate::failure::{CRASH_FINGERPRINT, cancel_fingerprint};
pub use crate::handler::LoadedHandler;
pub use crate::installation::{Freeze, Installation};
pub use crate::job_id::JobId;
pub use crate::lease::{ClaimedJob, Lease, WorkerId};
pub use crate::new_job::{Column, NewJob};
pub use crate::outcome::{Finish, Keep, Retention, Transition};
pub use crate::overrides::{Overrides, RetentionOverrides};
pub use crate::progress::{Progress, ProgressReport};
pub use crate::record::MAX_ERRORS_PER_JOB;
pub use action::{Action, Operated};
pub use audit::{AuditEntry, AuditRecord, DISCARDED, SOMEBODY};
pub use cancelled::Cancelled;
pub use claim::{Claim, Wanted};
pub use doctor::{Doctor, Finding, Objectives, Severity};
pub use explain::{Explain, HeldBy, MOST_AHEAD, MOST_SHOWN, RowLock, Surroundings, Tokens};
pub use failures::{FAILURES_EXAMINED, FailureGroup, FailureRow, Failures, Grouped, MESSAGE_PREFIX, group_failures};
pub use filter::{ArgIs, JobFilter, MAX_FILTER_IDS, Span, index};
pub use flow_control::{FlowControl, SlotOfJob};
pub use history::{History, Sampling, Statistics, rest_after};
pub use key_of_job::KeyOfJob;
pub use limit_keys::{AfterKey, COUNTED_OF_LIMIT, LimitKey, LimitStats, MOST_LIMITS, ReadLimits};
pub use limit_setting::{LimitSetting, check_most, check_no_sequence};
pub use limits::{Admission, Limits};
pub use loading::{Loaded, Loading, LoadingBody};
pub use notifications::Notifications;
pub use operations::{
    BETWEEN_STEPS, EXAMINED_PER_STEP, OperationId, OperationRecord, Operations, PATIENCE, Preview, STEP, filter_for,
};
pub use operator::{CANCELLED, CANCELLED_WITH_ALL, Operator};
pub use page::{COUNTED, Count, EXAMINED, EXAMINED_AT_COST, MAX_PAGE, Page, Paging};
pub use rescue::{
    CRASHED_TOO_OFTEN, Crashed, CrashedAttempt, NO_ATTEMPT_LEFT, QUARANTINED_COUNTS, RUNS_ALONE, RescueDecision,
    RescuePolicy, Rescued, Rescuer, WORKERS_FOR_A_QUARANTINED_JOB, quarantined_at_once,
};
pub use runtime_settings::{
    HaltedSequence, KindSettings, MOST_SLOTS, Pause, QueueSettings, RetentionSetting, RunningJob, RuntimeSettings,
    check_change, check_retention, check_slots,
};
pub use schedule_settings::{NewSchedule, ScheduleChange, ScheduleRecord, ScheduleSettings, Scheduled};
pub use schedules::{DeclaredSchedule, ScheduledJob, Schedules, StoredSchedule};
pub use search::{Found, NotCounted, search};
pub use transaction::{AsyncBody, BlockingBody, Body, Transacted, Transaction, finishes};
pub use when::When;
pub use why::{Explained, Reason, Why};

/// The result of an operation of the storage.
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
    /// The version of its program.
    pub version: Option<String>,
    /// The queues with the number of jobs that it runs at once. An operator may set another number.
    pub slots: Vec<(String, usize)>,
    /// The kinds that its program knows.
    pub kinds: Vec<String>,
    /// How long after its last heartbeat a rescue may make its jobs available again.
    pub lease: Duration,
}

impl WorkerInfo {
    /// A worker without a name, queues and kinds.
    pub fn new(id: WorkerId, lease: Duration) -> Self {
        let (queues, slots, kinds) = (Vec::new(), Vec::new(), Vec::new());
        Self { id, host: String::new(), pid: 1, queues, version: None, slots, kinds, lease }
    }
}

/// Why a rescan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescanReason {
    /// A regular rescan. A storage may skip it if it knows that it would find nothing.
    Routine,
    /// Jobs were rescued, released or enqueued with an earlier `run_at`, or a notification was followed by a claim
    /// without jobs. A storage must not skip it.
    Requested,
}

/// The result of a rescan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescanned {
    /// There was no straggler.
    Nothing,
    /// There were stragglers. Claims find them now.
    Found,
    /// Too many workers rescan at the moment, so it is unknown whether there are stragglers.
    Refused,
}

/// The database's reply to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The database's time.
    pub at: DateTime<Utc>,
    /// Whether the database is [frozen](Installation::frozen).
    pub frozen: bool,
    /// What an operator asks of this worker.
    pub asked: Option<Asked>,
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
pub trait Storage: Schedules + Notifications + Statistics + Operations + Limits {
    /// The name of the database, for messages.
    fn name(&self) -> &'static str;

    /// Whether transactional handlers may take this connection type, and rows may be loaded through it.
    fn provides(&self, connection: TypeId) -> bool;

    /// How many connections are open, if the database is reached through connections.
    fn connections(&self) -> Option<usize> {
        None
    }

    /// Fails unless this program can serve the schema: its own version, or a later version that allows this program.
    /// Returns the environment of the database, and whether the database is frozen.
    ///
    /// While the database is frozen, [`claim`](Self::claim), [`next_due`](Self::next_due), [`tick`](Schedules::tick)
    /// and [`prune`](Self::prune) find nothing to do. All other operations work as usual.
    async fn check_schema(&self) -> StorageResult<Installation>;

    /// Registers the worker. The time of its first heartbeat is now.
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()>;

    /// Stores what is enqueued when jobs of these kinds are discarded. Kinds without a rule get none. A discard, by a
    /// [finish](Self::finish) or a [rescue](Self::rescue), enqueues that job in its own transaction.
    async fn declare_discard_rules(&self, kinds: &[String], rules: &[DiscardRule]) -> StorageResult<()>;

    /// Removes the worker from the list. Its leases must be finished or released before that.
    async fn deregister(&self, worker: WorkerId) -> StorageResult<()>;

    /// Opens the worker's connection for heartbeats, on the calling runtime.
    async fn open_heartbeat(&self, worker: WorkerId) -> StorageResult<Box<dyn Heartbeat>>;

    /// Claims due jobs, at most as many as wanted, in the order of priority and `run_at`. It increases the attempt and
    /// the lease number of each job by one. It does not claim quarantined jobs. Returns no jobs while the claim limit
    /// is reached. [`next_due`](Self::next_due) still returns zero if a job is due.
    ///
    /// If [`only_quarantined`](Claim::only_quarantined) is set, claims the first due quarantined job of these kinds
    /// whose queue has a free slot. Returns no job while the [limit](quarantined_at_once) is reached. The limit counts
    /// running quarantined jobs that were claimed within the last two minutes.
    async fn claim(&self, claim: &Claim) -> StorageResult<Vec<ClaimedJob>>;

    /// Returns the time until the first waiting job of these queues and kinds is due, without quarantined jobs. Returns
    /// `None` if no such job waits. It may also return `None` if none becomes due `within` this time.
    async fn next_due(&self, claim: &Claim, within: Duration) -> StorageResult<Option<Duration>>;

    /// Searches for stragglers: jobs that [`claim`](Self::claim) and [`next_due`](Self::next_due) do not find, because
    /// they appeared below a scan floor. After the rescan both find them. A rescan runs in parallel with both and may
    /// take long. If the claims of a storage always find all jobs, it does nothing here.
    async fn rescan(&self, claim: &Claim, reason: RescanReason) -> StorageResult<Rescanned>;

    /// Applies transitions in one transaction. It applies each only if its lease still stands and no other session has
    /// locked its row, so it never waits for a lock. Returns the jobs that were moved. All others have lost their
    /// lease, or their rows are locked. [`leases`](Self::leases) distinguishes the two.
    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>>;

    /// What operators have set at run time. Each worker reads it once a second, so it must be cheap.
    async fn overrides(&self) -> StorageResult<Overrides>;

    /// Returns the leases of this worker that stand, as job and lease number. If `among` is given, it may leave out the
    /// leases of other jobs.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>>;

    /// Those of these jobs that are cancelled, and who has cancelled each of them. A worker asks after it has lost leases.
    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>>;

    /// Stores what handlers have reported of their jobs, in place of earlier reports. It leaves out jobs that were claimed
    /// again since, and jobs that do not exist any more.
    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()>;

    /// Runs a handler inside the transaction that finishes its job, or all jobs of its batch. If one of the leases is lost, nothing is
    /// committed.
    async fn transact(&self, transaction: Transaction) -> Transacted;

    /// Loads the rows of a handler that takes no connection, and gives the connection back. It writes nothing.
    async fn load(&self, loading: Loading) -> Loaded;

    /// Makes the jobs of workers whose lease ran out available again, and counts a crash on each, as
    /// [`RescuePolicy::decide`] says.
    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued>;

    /// Deletes ended jobs whose retention is over, at most `limit`. Returns how many.
    async fn prune(&self, limit: usize) -> StorageResult<usize>;
}
