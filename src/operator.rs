//! Inspecting and changing jobs, as a person or a tool does: everything that the command line and the dashboard can do
//! is a method of [`Operator`] or of one of the traits that it includes.
//!
//! [`Database::operator`](crate::Database) is an `Arc<dyn Operator>`, on which all these methods can be called without
//! further imports.
//!
//! | trait | what it does |
//! |---|---|
//! | [`Operator`] | lists, counts, shows and changes jobs; reads failures and the audit |
//! | [`History`] | reads numbers of jobs, rates, charts and events; the types of the charts are in [`history`] |
//! | [`RuntimeSettings`] | pauses queues and kinds, sets slots and retentions, asks workers to stop |
//! | [`ScheduleSettings`](crate::schedule::ScheduleSettings) | adds, changes and triggers schedules |
//! | [`FlowControl`], [`ReadLimits`] | read limits and rates, set limits, free permits |
//! | [`Explain`] | reads why a job does not run, from which [`Why`] is made |
//! | [`Doctor`] | examines the database |
//! | [`Operations`] | continues actions on many jobs |
//! | [`ActOnce`] | carries out a request that may arrive twice, such as that of a form, only once |
//!
//! ```
//! use diesel_jobs::operator::{Action, JobFilter, Paging};
//! use diesel_jobs::{Database, JobState};
//!
//! # async fn retry(database: Database) -> Result<(), diesel_jobs::StorageError> {
//! let discarded = JobFilter { states: vec![JobState::Discarded], ..JobFilter::default() };
//! for job in database.operator.list(&discarded, Paging::newest(10)).await?.jobs {
//!     println!("job {} of kind {}", job.id, job.kind);
//! }
//! // Workers retry all of them, in batches.
//! database.operator.start_operation(&Action::Retry, &discarded, "mia").await?;
//! # Ok(())
//! # }
//! ```

pub use diesel_jobs_core::history;
pub use diesel_jobs_core::storage::{
    ActOnce, Action, AfterKey, ArgIs, AuditEntry, AuditRecord, Count, Doctor, Explain, FailureGroup, Failures, Finding,
    FlowControl, HaltedSequence, HeldBy, History, JobFilter, Keep, KeyOfJob, KindSettings, LimitKey, LimitPermit,
    LimitSetting, LimitStats, Objectives, Once, Operated, OperationId, OperationRecord, Operations, Operator, Page,
    Paging, Pause, PermitOfJob, Preview, Program, QueueOverview, QueueSettings, RateKey, ReadLimits, RequestKey,
    RetentionSetting, RunningJob, RuntimeSettings, Severity, Span, StorageResult, Surroundings, When,
};
pub use diesel_jobs_core::{
    Asked, AttemptEnd, AttemptError, AttemptRecord, Counted, CountedTo, DeadLetter, DeadLetters, DeadRows, Depth,
    Events, EventsSince, Explained, Freeze, Happened, HeldCounts, Installation, JobEvent, JobRecord, KindStats,
    LeasedJob, LongQueues, Progress, QueueCount, QueueStats, Reason, Sample, Stats, Why, WorkerRecord,
};
