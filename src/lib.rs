// The README's examples use both databases and the command line; other builds document themselves without it.
#![cfg_attr(all(feature = "postgres", feature = "sqlite", feature = "cli"), doc = include_str!("../README.md"))]
#![cfg_attr(not(all(feature = "postgres", feature = "sqlite", feature = "cli")), doc = "Background jobs for Diesel.")]

// Its example is compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../RELIABILITY.md")]
mod reliability {}

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
mod macros;
pub mod prelude;

pub use diesel_jobs_core::{
    AttemptError, Backoff, CatchUp, Failure, FailureKind, Freeze, Handle, Handled, Installation, IntoNewJob,
    InvalidJob, InvalidSchedule, Job, JobBuilder, JobContext, JobError, JobId, JobOptions, JobRecord, JobState,
    KindStats, Lease, NewJob, NoRuntime, Outcome, Registered, Registration, Registry, RegistryError, ResultExt, Retain,
    Retention, RunAt, Schedule, State, StorageError, TestContext, UnknownQueue, Worker, WorkerBuilder, WorkerError,
    WorkerHandle, WorkerId, WorkerRecord, WorkerStats, storage,
};
pub use diesel_jobs_macros::{Job, job};
pub use diesel_jobs_storage::{
    Backend, CompleteError, CompleteIn, Database, Enqueue, EnqueueError, Executor, MigrateError, enqueue_all, job_view,
    migrate, migrations,
};

/// What the macros' output names. Not for people: it changes without notice.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "cli")]
    pub use crate::cli::log_as_worker;
    pub use diesel_jobs_core::__private::{Argument, BoxFuture, NoArguments, decode, handle, inventory};
    pub use diesel_jobs_core::{
        AnyConnection, Backoff, CatchUp, Handle, Handled, Handler, IntoHandled, Job, JobContext, JobError, JobOptions,
        Registered, Registration, Retain, ScheduleSpec, State, TypeKey,
    };
    pub use diesel_jobs_storage::{AsyncJobConnection, BlockingJobConnection};
    pub use serde;
}
