//! The storage interface: the operations that the worker needs from a database. Each runs in a span with its name and
//! its duration.

mod action;
mod audit;
mod cancelled;
mod claim;
mod connections;
mod doctor;
mod explain;
mod failures;
mod filter;
mod filter_conditions;
mod filter_secrets;
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
mod once;
mod operations;
mod operator;
mod page;
mod queue_overview;
mod registration;
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

use std::time::Duration;

use async_trait::async_trait;

use crate::storage_error::StorageError;

// The types that the operations take and return. The implementation of a storage needs no other module.
pub use crate::any_connection::AnyConnection;
pub use crate::asked::Asked;
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
pub use crate::record::MAX_ERRORS_PER_JOB;
pub use crate::rules::{is_key, key_text, keyed};
pub use action::{Action, Operated};
pub use audit::{AuditEntry, AuditRecord, DISCARDED, UNNAMED_OPERATOR};
pub use cancelled::Cancelled;
pub use claim::{Claim, Wanted};
pub use connections::Connections;
pub use doctor::{Doctor, Finding, Objectives, Severity};
pub use explain::{Explain, HeldBy, MOST_AHEAD, MOST_SHOWN, MOST_TENANTS, RowLock, Surroundings, Tokens};
pub use failures::{
    ENTRIES_EXAMINED, FAILURES_EXAMINED, FailureGroup, FailureRow, Failures, Grouped, MESSAGE_PREFIX, group_failures,
};
pub use filter::{ArgIs, JobFilter, MAX_FILTER_IDS, Span, index};
pub use filter_conditions::{CONDITIONS, Condition};
pub use filter_secrets::searchable;
pub use flow_control::{FlowControl, FoundPermit, LimitPermit, PermitOfJob};
pub use history::{History, Sampling, Statistics, rest_after};
pub use key_of_job::KeyOfJob;
pub use limit_keys::{AfterKey, COUNTED_OF_LIMIT, LimitKey, LimitStats, MOST_LIMITS, RateKey, ReadLimits};
pub use limit_setting::{LimitSetting, check_most, check_no_sequence};
pub use limits::{Admission, EndedByLimit, ExpiredJob, Limits, MOST_ENDED, MOST_EXPIRED};
pub use loading::{Loaded, Loading, LoadingBody};
pub use notifications::Notifications;
pub use once::{ActOnce, Once, RequestKey};
pub use operations::{
    BETWEEN_STEPS, EXAMINED_PER_STEP, LONGEST_WAIT_FOR_LOCKS, OperationId, OperationRecord, Operations, Preview, STEP,
    filter_for,
};
pub use operator::{CANCELLED, CANCELLED_WITH_ALL, Operator};
pub use page::{COUNTED, Count, EXAMINED, EXAMINED_AT_COST, MAX_PAGE, Page, Paging};
pub use queue_overview::{QueueOverview, queue_overview, unserved};
pub use registration::{Beat, Heartbeat, Registration, WorkerInfo};
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
pub use schedule_settings::{NewSchedule, ScheduleChange, ScheduleRecord, ScheduleSettings, Scheduled};
pub use schedules::{DeclaredSchedule, ScheduledJob, Schedules, StoredSchedule};
pub use search::{Found, NotCounted, search};
pub use transaction::{AsyncBody, BlockingBody, Body, Transacted, Transaction, finishes};
pub use when::When;
pub use why::{Explained, Reason, Why};

/// The result of an operation of the storage.
pub type StorageResult<T> = Result<T, StorageError>;

/// Why a rescan is made. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RescanReason {
    /// A regular rescan. A storage may skip it if it knows that it would find nothing.
    Routine,
    /// Jobs were rescued, released or enqueued with an earlier `run_at`, or a notification was followed by a claim
    /// without jobs. A storage must not skip it.
    Requested,
}

/// The result of a rescan. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescanned {
    /// There was no straggler.
    Nothing,
    /// There were stragglers. Claims find them now.
    Found,
    /// Too many workers rescan at the moment, so it is unknown whether there are stragglers.
    Refused,
}

/// The result of [`finish_and_pass_on`](Storage::finish_and_pass_on).
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// The jobs that were moved.
    pub moved: Vec<JobId>,
    /// How many held jobs have become available.
    pub passed_on: usize,
    /// The held jobs that got a permit and were claimed at once.
    pub claimed: Vec<ClaimedJob>,
    /// Whether a key may have a free permit now, so that a pass of admission should follow.
    pub is_free: bool,
}

/// What the worker needs from a database.
#[async_trait]
pub trait Storage: Registration + Connections + Schedules + Notifications + Statistics + Operations + Limits {
    /// The name of the database, for messages.
    fn name(&self) -> &'static str;

    /// Fails unless this program can serve the schema: its own version, or a later version that allows this program.
    /// Returns the environment of the database, and whether the database is frozen.
    ///
    /// While the database is frozen, [`claim`](Self::claim), [`next_due`](Self::next_due), [`tick`](Schedules::tick)
    /// and [`prune`](Self::prune) find nothing to do. All other operations work as usual.
    async fn check_schema(&self) -> StorageResult<Installation>;

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

    /// Applies transitions in one transaction. It applies each only if its lease is still valid and no other session
    /// has locked its row, so it never waits for a lock. Returns the jobs that were moved. All others have lost their
    /// lease, or their rows are locked. [`leases`](Self::leases) distinguishes the two.
    async fn finish(&self, batch: &[Finish]) -> StorageResult<Vec<JobId>>;

    /// The same. A storage may also pass on the permits of completed jobs: then the next held jobs of the same keys get
    /// them and become available, as [`admit`](Limits::admit) would decide. So no pass of admission is needed for them.
    /// If `next` is given, the storage may claim those of them that `next` wants, in the same transaction. A worker
    /// gives it only while no other job waits for it, because such jobs do not wait for their turn among the available
    /// jobs. A storage that does not override it passes on nothing.
    async fn finish_and_pass_on(&self, batch: &[Finish], _next: Option<&Claim>) -> StorageResult<Finished> {
        Ok(Finished { moved: self.finish(batch).await?, is_free: true, ..Finished::default() })
    }

    /// Reads the settings of operators. Each worker calls it once a second, so it must be cheap.
    async fn overrides(&self) -> StorageResult<Overrides>;

    /// Returns the valid leases of this worker, as job and lease number. If `among` is given, it may leave out the
    /// leases of other jobs.
    async fn leases(&self, worker: WorkerId, among: Option<&[JobId]>) -> StorageResult<Vec<(JobId, i32)>>;

    /// Returns which of these jobs are cancelled, and by whom. A worker calls it after it has lost leases.
    async fn cancelled(&self, jobs: &[JobId]) -> StorageResult<Vec<Cancelled>>;

    /// Stores the reports of handlers about their jobs, instead of earlier reports. It ignores jobs that were claimed
    /// again since, and jobs that do not exist any more.
    async fn store_progress(&self, reports: &[ProgressReport]) -> StorageResult<()>;

    /// Makes the jobs of workers whose lease ran out available again, and counts a crash on each, as
    /// [`RescuePolicy::decide`] says. The jobs of a worker that was
    /// [draining](Heartbeat::beat) are released instead.
    async fn rescue(&self, policy: RescuePolicy) -> StorageResult<Rescued>;

    /// Deletes ended jobs whose retention is over, at most `limit`. Returns how many.
    async fn prune(&self, limit: usize) -> StorageResult<usize>;
}
