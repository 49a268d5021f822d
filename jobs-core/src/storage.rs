//! The storage interface: the operations that the worker needs from a database. Each runs in a span with its name and
//! its duration.

mod action;
mod audit;
mod claim;
mod doctor;
mod explain;
mod failures;
mod filter;
mod filter_conditions;
mod filter_secrets;
pub mod filter_text;
mod finished;
mod flow_control;
mod history;
pub(crate) mod instrumented;
mod key_of_job;
mod leases;
mod limit_keys;
mod limit_setting;
mod limits;
mod loading;
mod maintained;
mod once;
mod operations;
mod operator;
mod page;
mod polled;
mod queue_overview;
pub(crate) mod refusals;
mod registration;
mod rescan;
mod rescue;
mod runtime_settings;
mod schedule_problem;
mod schedule_settings;
mod schedules;
mod search;
mod transaction;
mod when;
mod why;
mod worker_state;

use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::history::HistoryBatch;
use crate::storage_error::StorageError;

// The types that the operations take and return. The implementation of a storage needs no other module.
pub use crate::any_connection::AnyConnection;
pub use crate::asked::Asked;
pub use crate::declared_rules::{DeclaredRules, DiscardRules};
pub use crate::declared_schedule::{Declarations, DeclaredSchedule, is_declared_so};
pub use crate::discarded::DiscardRule;
pub use crate::failure::{CRASH_FINGERPRINT, KILLED_FINGERPRINT, cancel_fingerprint};
pub use crate::handler::LoadedHandler;
pub use crate::installation::{Freeze, Installation};
pub use crate::job_id::JobId;
pub use crate::lease::{ClaimedJob, Lease, WorkerId};
pub use crate::new_job::{Column, NewJob};
pub use crate::outcome::{Finish, Keep, Retention, Transition};
pub use crate::overrides::{Overrides, RetentionOverrides};
pub use crate::progress::{Progress, ProgressReport};
pub use crate::queue_pattern::{check_one_queue, check_served, fits, is_pattern, refuse_other_notations, served_as};
pub use crate::record::MAX_ERRORS_PER_JOB;
pub use crate::rules::{is_key, key_text, keyed};
pub use action::{Action, MAX_RESCHEDULE, Operated};
pub use audit::{AuditEntry, AuditRecord, DISCARDED, UNNAMED_OPERATOR};
pub use claim::{Claim, Waiting, Wanted};
pub use doctor::{Doctor, Finding, Objectives, Program, Severity, WaitingJobs};
pub use explain::{Explain, HeldBy, MOST_AHEAD, MOST_SHOWN, MOST_TENANTS, RowLock, Surroundings, Tokens};
pub use failures::{
    ENTRIES_EXAMINED, FAILURES_EXAMINED, FailedJob, FailureGroup, FailureRow, Failures, MESSAGE_PREFIX, group_failures,
};
pub use filter::{ArgIs, JobFilter, MAX_FILTER_IDS, Span, index};
pub use filter_conditions::{CONDITIONS, Condition};
pub(crate) use filter_secrets::searchable;
pub use finished::{Finished, PassOn};
pub use flow_control::{FlowControl, FoundPermit, LimitPermit, PermitOfJob};
pub use history::{History, rest_after};
pub use key_of_job::KeyOfJob;
pub use leases::{Cancelled, Leases};
pub use limit_keys::{AfterKey, COUNTED_OF_LIMIT, LimitKey, LimitStats, MOST_LIMITS, RateKey, ReadLimits};
pub use limit_setting::{LimitSetting, check_most, check_no_sequence};
pub use limits::{Admission, EndedWaiting, Ends, MOST_ENDED, WaitEnd};
pub use loading::{Loaded, Loading, LoadingBody};
pub use maintained::{Chore, Maintained};
pub use once::{ActOnce, Once, RequestKey};
pub use operations::{
    BETWEEN_STEPS, EXAMINED_PER_STEP, LONGEST_WAIT_FOR_LOCKS, OperationId, OperationRecord, Operations, Preview, STEP,
    filter_for,
};
pub use operator::{CANCELLED, CANCELLED_WITH_ALL, Operator};
pub use page::{COUNTED, Count, EXAMINED, EXAMINED_AT_COST, MAX_PAGE, Page, Paging};
pub use polled::{Polled, Upkeep};
pub use queue_overview::{QueueOverview, queue_overview, unserved};
pub use registration::{Beat, Heartbeat, WorkerInfo};
pub use rescan::{RescanReason, Rescanned};
pub use rescue::{
    CRASHED_TOO_OFTEN, Crashed, CrashedAttempt, KILLED_TOO_OFTEN, MOST_KILLS, NO_ATTEMPT_LEFT, QUARANTINED_COUNTS,
    RUNS_ALONE, RescueDecision, RescuePolicy, Rescued, Rescuer, WAS_KILLED, WORKERS_FOR_A_QUARANTINED_JOB,
    quarantined_at_once,
};
pub use runtime_settings::{
    HaltedSequence, KindSettings, MOST_SLOTS, NO_WORKER_ENDS_JOBS, Pause, QueueSettings, RetentionSetting, RunningJob,
    RuntimeSettings, check_change, check_retention, check_slots,
};
pub use schedule_problem::ScheduleProblem;
pub use schedule_settings::{LastRun, NewSchedule, ScheduleChange, ScheduleRecord, ScheduleSettings, Scheduled};
pub use schedules::{ScheduledJob, StoredSchedule, StoredSchedules};
pub use search::{Found, NotCounted, preview, search};
pub use transaction::{AsyncBody, BlockingBody, Body, Interruption, Transacted, Transaction, finishes};
pub use when::When;
pub use why::{Explained, Reason, Why};

/// The result of an operation of the storage.
pub type StorageResult<T> = Result<T, StorageError>;

/// What a worker needs from a database.
///
/// With the first part, which every storage has, a worker runs jobs. The defaults of the second part offer less: no
/// settings of operators, no handlers on its connections, no schedules, rules or history, and idle workers that poll.
#[async_trait]
pub trait Storage: Send + Sync {
    /// The name of the database, for messages.
    fn name(&self) -> &'static str;

    /// Fails unless this program can serve the schema: its own version, or a later version that allows this program.
    /// Returns the environment of the database, and whether the database is frozen.
    ///
    /// While the database is frozen, [`claim`](Self::claim), [`next_due`](Self::next_due), [`tick`](Self::tick) and
    /// [`Chore::Prune`] find nothing to do. All other operations work as usual.
    async fn check_schema(&self) -> StorageResult<Installation>;

    /// Registers the worker. The time of its first heartbeat is now.
    async fn register(&self, worker: &WorkerInfo) -> StorageResult<()>;

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

    /// Returns the time until the first of these jobs of the claim's queues and kinds is due, without quarantined jobs,
    /// and zero if one is due. Returns `None` if no such job waits.
    async fn next_due(&self, claim: &Claim, waiting: Waiting) -> StorageResult<Option<Duration>>;

    /// Applies transitions in one transaction. It applies each only if its lease is still valid and no other session
    /// has locked its row, so it never waits for a lock. All jobs that it does not move have lost their lease, or their
    /// rows are locked. [`leases`](Self::leases) distinguishes the two. A storage may ignore `pass_on`.
    async fn finish(&self, batch: &[Finish], pass_on: PassOn<'_>) -> StorageResult<Finished>;

    /// Returns the valid leases of this worker. If `among` is given, it may leave out the leases of other jobs, and it
    /// says which of these jobs are not the worker's because they were cancelled.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Leases>;

    /// Makes the jobs of dead workers available again, and counts a crash on each, as [`RescuePolicy::decide`] says.
    /// Those of a worker that was [draining](Heartbeat::beat) are released. A job that is refused stops no other.
    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued>;

    /// Does one batch of a chore, of at most `limit` rows. Any worker may do it at any time. For chores that a storage
    /// does not have, it returns [`Maintained::default`].
    async fn maintain(&self, chore: Chore, limit: usize) -> StorageResult<Maintained>;

    /// Whether a worker is dead, or the worker of a running job is unknown, so that a [rescue](Self::rescue) may find
    /// jobs. Only workers that run until no job is due ask for it.
    async fn rescue_is_due(&self) -> StorageResult<bool> {
        Ok(false)
    }

    /// The [`next_due`](Self::next_due) of available jobs within this time, with what else there is to do. A worker
    /// that has set its idle flag asks for it, so that its services need not look for themselves.
    async fn poll(&self, claim: &Claim, within: Duration) -> StorageResult<Polled> {
        let due = self.next_due(claim, Waiting::Available { within }).await?;
        Ok(Polled { due, ..Polled::default() })
    }

    /// Reads the settings of operators. A worker that is not idle calls it once a second, so it must be cheap.
    async fn overrides(&self) -> StorageResult<Overrides> {
        Ok(Overrides::default())
    }

    /// Searches for stragglers: jobs that [`claim`](Self::claim) and [`next_due`](Self::next_due) do not find, because
    /// they appeared below a scan floor. After the rescan both find them. A rescan runs in parallel with both and may
    /// take long. If the claims of a storage always find all jobs, it does nothing here.
    async fn rescan(&self, _claim: &Claim, _reason: RescanReason) -> StorageResult<Rescanned> {
        Ok(Rescanned::Nothing)
    }

    /// The queues in which such jobs wait, of all kinds and at any time. A worker that serves a pattern of queues calls
    /// it about once a second, and after each poll while it is idle, so it reads few entries for each queue, however
    /// many jobs wait. For held jobs it may read all of them. A storage without this operation serves no patterns.
    async fn waiting_queues(&self, _waiting: Waiting) -> StorageResult<Vec<String>> {
        Err(StorageError::Config(format!(
            "{} does not find queues at run time; name each queue instead of a pattern with `*`",
            self.name()
        )))
    }

    /// Stores whether the worker is idle, so that enqueues wake it only then.
    async fn set_idle(&self, _worker: WorkerId, _idle: bool) -> StorageResult<()> {
        Ok(())
    }

    /// Listens for jobs in these queues, some of which may be patterns, on its own connection until `stop`. It notifies
    /// `wake` at each notification, and `admission` if a job may have become held, or if an operator may have changed a
    /// setting. It reconnects automatically. If a notification is lost, the worker finds the job at its next poll.
    async fn listen(&self, _queues: &[String], _wake: Arc<Notify>, _admission: Arc<Notify>, stop: CancellationToken) {
        stop.cancelled().await;
    }

    /// Whether transactional handlers may take this connection type, and rows may be loaded through it.
    fn provides(&self, _connection: TypeId) -> bool {
        false
    }

    /// How many connections are open, if the database is reached through connections.
    fn connections(&self) -> Option<usize> {
        None
    }

    /// Runs a handler inside the transaction that finishes its job, or all jobs of its batch. If one of the leases is
    /// lost, nothing is committed.
    async fn transact(&self, _transaction: Transaction) -> Transacted {
        Transacted::NotBegun(no_connection(self.name()))
    }

    /// Loads the rows of a handler that takes no connection, and gives the connection back. It writes nothing.
    async fn load(&self, _loading: Loading) -> Loaded {
        Loaded::NotLoaded(no_connection(self.name()))
    }

    /// Stores the reports of handlers about their jobs, instead of earlier reports. It ignores jobs that were claimed
    /// again since, and jobs that do not exist any more.
    async fn store_progress(&self, _reports: &[ProgressReport]) -> StorageResult<()> {
        Ok(())
    }

    /// Stores what this worker did. A batch that was stored before is not stored again.
    async fn record_history(&self, _batch: &HistoryBatch) -> StorageResult<()> {
        Ok(())
    }

    /// Stores these schedules, which the code declares, each in a transaction, and reads all. New and changed ones
    /// start now. Others stay, and so does what an operator has set: what the code declares is stored beside it.
    async fn schedules(&self, _declared: &[DeclaredSchedule]) -> StorageResult<StoredSchedules> {
        Ok(StoredSchedules::default())
    }

    /// Stores the rules that a program declares, in place of others for its kinds. A rule that a live worker declares
    /// as it is stored stays. A discard enqueues the job of the stored rule in its own transaction.
    async fn declare_discard_rules(&self, _kinds: &[String], _rules: &[DiscardRule]) -> StorageResult<DeclaredRules> {
        Ok(DeclaredRules::default())
    }

    /// Moves a schedule to the new `last_tick` and enqueues the jobs of its ticks, in one transaction. Returns `false`
    /// if the stored `last_tick` is no longer that of `schedule`, or another session has locked the row.
    async fn tick(
        &self,
        _schedule: &StoredSchedule,
        _last_tick: DateTime<Utc>,
        _jobs: &[NewJob],
    ) -> StorageResult<bool> {
        Ok(false)
    }

    /// A pass of admission, for keys with a nudge: a transaction has freed a permit or inserted a job. With `sweeps`,
    /// it also checks keys whose jobs have become due, and others, in turns. One session of the database admits at a
    /// time. If another one does, this returns at once.
    async fn admit(&self, _sweeps: bool) -> StorageResult<Admission> {
        Ok(Admission::default())
    }

    /// Ends waiting jobs for this reason, about [`MOST_ENDED`], and keeps them as `retention` says. None stops another.
    async fn end_waiting(&self, _end: WaitEnd, _retention: Retention) -> StorageResult<Ends> {
        Ok(Ends::default())
    }
}

/// The error of a storage that provides no connections. The worker's builder refuses such handlers, so no job gets it.
fn no_connection(name: &str) -> StorageError {
    StorageError::Config(format!("{name} provides no connections for handlers"))
}
