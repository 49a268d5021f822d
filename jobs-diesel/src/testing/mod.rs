//! Tools for tests of applications: they show the jobs that a test's own connection has enqueued, and run them on that
//! connection.

mod attempts;
mod backlog;
mod batch;
pub(crate) mod blocked;
mod crash;
mod database;
mod decoded;
mod drain;
mod enqueued;
mod expectation;
mod layered;
mod migrations;
mod perform;
#[cfg(feature = "postgres")]
mod pg;
#[cfg(feature = "postgres")]
mod pg_database;
#[cfg(feature = "postgres-sync")]
mod pg_sync;
mod plan;
mod refused;
mod report;
mod rows;
mod savepoint;
mod session;
mod sessions;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_async;
mod store;
mod stuck;
mod tick;
mod waiting;

#[doc(hidden)]
pub use expectation::{differs, never};
#[doc(hidden)]
pub use session::{Migrations, Prepared, TestSettings, run_async_test, run_test};
pub use {
    blocked::Blocked,
    crash::{Contents, CrashConnection, CrashEverywhere, CrashPoint, CrashReport, crash_everywhere},
    database::{TestDatabase, TestDatabaseBuilder},
    drain::{Drain, drain},
    enqueued::{Enqueued, enqueued},
    expectation::{Expectation, FieldDifference, RunIn},
    perform::{Perform, perform},
    report::{DrainReport, Ended, RanJob, StillWaiting},
    session::{SyncTestSession, TestSession},
    store::{AsTestConnection, TestConnection},
    tick::tick,
    waiting::{Among, Waiting},
};

use diesel_jobs_core::JobError;

/// The error of a handler that takes another connection type than the test's. Drains refuse such a job before they run
/// it.
fn other_connection() -> JobError {
    JobError::msg("this handler takes another type of connection than the test has")
}

/// Returns the result of a future that never waits, because all of its steps use a sync connection.
#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
fn now<T>(future: futures_util::future::BoxFuture<'_, T>) -> T {
    futures_util::FutureExt::now_or_never(future).unwrap_or_else(|| unreachable!("a sync connection never waits"))
}
