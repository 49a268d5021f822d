// The README's examples use both databases and the command line; other builds document themselves without it.
#![cfg_attr(all(feature = "postgres", feature = "sqlite", feature = "cli"), doc = include_str!("../README.md"))]
#![cfg_attr(not(all(feature = "postgres", feature = "sqlite", feature = "cli")), doc = "Background jobs for Diesel.")]

// Compiles the examples in the guide, in RELIABILITY.md and in the README of the dashboard as doc tests.
#[cfg(all(doctest, feature = "postgres", feature = "sqlite", feature = "cli"))]
mod guide {
    #[doc = include_str!("../docs/guide/changing.md")]
    mod changing {}
    #[cfg(feature = "dashboard")]
    #[doc = include_str!("../docs/guide/dashboard.md")]
    mod dashboard {}
    #[cfg(feature = "dashboard")]
    #[doc = include_str!("../jobs-web/README.md")]
    mod dashboard_readme {}
    #[doc = include_str!("../docs/guide/enqueueing.md")]
    mod enqueueing {}
    #[doc = include_str!("../docs/guide/flow-control.md")]
    mod flow_control {}
    #[doc = include_str!("../docs/guide/getting-started.md")]
    mod getting_started {}
    #[doc = include_str!("../docs/guide/handlers.md")]
    mod handlers {}
    #[doc = include_str!("../docs/guide/history-and-statistics.md")]
    mod history_and_statistics {}
    #[doc = include_str!("../docs/guide/monitoring.md")]
    mod monitoring {}
    #[doc = include_str!("../docs/guide/outcomes.md")]
    mod outcomes {}
    #[doc = include_str!("../docs/guide/production.md")]
    mod production {}
    #[doc = include_str!("../docs/guide/running-workers.md")]
    mod running_workers {}
    #[doc = include_str!("../docs/guide/runtime-settings.md")]
    mod runtime_settings {}
    #[doc = include_str!("../docs/guide/scheduling.md")]
    mod scheduling {}
    #[doc = include_str!("../docs/guide/testing.md")]
    mod testing {}
    #[cfg(feature = "testing")]
    #[doc = include_str!("../docs/guide/testing-compared.md")]
    mod testing_compared {}
    #[doc = include_str!("../RELIABILITY.md")]
    mod reliability {}
}

#[cfg(feature = "cli")]
pub mod cli;
pub mod enqueue;
pub mod handler;
mod macros;
pub mod metrics;
pub mod operator;
#[cfg(feature = "opentelemetry")]
pub mod otel;
pub mod prelude;
pub mod rows;
pub mod rules;
pub mod schedule;
pub mod store;
#[cfg(all(feature = "testing", any(feature = "postgres", feature = "sqlite")))]
pub mod testing;
pub mod trace;
pub mod worker;

// At most 50 names; `cargo xtask tidy` counts them. What most applications never write belongs in a module.
pub use diesel_jobs_core::{
    Enqueued, Job, JobBuilder, JobContext, JobEnd, JobError, JobId, JobState, NewJob, Outcome, State, StorageError,
    Tagged, WaitError, Worker, WorkerBuilder, WorkerError,
};
#[cfg(all(feature = "testing", any(feature = "postgres", feature = "sqlite")))]
pub use diesel_jobs_macros::test;
pub use diesel_jobs_macros::{Job, job};
pub use diesel_jobs_storage::{
    Backend, Change, ChangeError, Database, Enqueue, EnqueueError, MigrateError, OutputError, enqueue_all, migrate,
    migrations, output,
};

/// Items for the code that the macros generate. Do not use them yourself: they change without notice.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "cli")]
    pub use crate::cli::{log_as_worker, main_of_version};
    pub use diesel_jobs_core::__private::{
        Argument, BoxFuture, CloneArgument, DebugArgument, NoArguments, PartialEqArgument, Redacted, StateParameter,
        handle, handle_batch, handle_batch_in, handle_blocking_batch_in, inventory,
    };
    pub use diesel_jobs_core::{
        AnyConnection, Backoff, BatchCall, BatchHandler, CatchUp, Discarded, Handle, HandleBlocking, HandleBlockingIn,
        HandleIn, Handled, Handler, IntoHandled, Job, JobBuilder, JobContext, JobError, JobId, JobOptions, KindRule,
        LoadedHandler, OnConflict, OnDiscard, OnFull, Registered, Registration, Replace, Retain, ReturnsOutput,
        RowHandler, ScheduleSpec, State, TransactionalBatch, TypeKey, Unique, Until,
    };
    // What `#[diesel_jobs::test]` and the macros for assertions call. The compiler prints these paths only if the names
    // are in this module itself.
    #[cfg(all(feature = "testing", any(feature = "postgres", feature = "sqlite")))]
    pub use diesel_jobs_core::testing::check_golden;
    #[cfg(feature = "testing")]
    pub use diesel_jobs_macros::equal;
    #[cfg(all(feature = "testing", any(feature = "postgres", feature = "sqlite")))]
    pub use diesel_jobs_storage::testing::{Prepared, TestSettings, differs, never, run_async_test, run_test};
    pub use diesel_jobs_storage::{
        AsyncJobConnection, AsyncLoadRow, AsyncTakeRow, BlockingJobConnection, EnqueueConnection, Gone, HasTable,
        IntoColumn, JobColumns, Key, LoadRow, Loadable, Loaders, NotThroughAsyncPg, NotThroughPg, NotThroughSqlite,
        OutputError, RowLock, TakeRow, ThroughAsyncPg, ThroughPg, ThroughSqlite, found, found_or_none, in_common,
        loaders, taken,
    };
    pub use serde;
}
