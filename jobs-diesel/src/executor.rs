//! One verb for every connection: what the user's own connection must be able to do.
//!
//! A connection is sync or async, PostgreSQL's or SQLite's, plain, pooled or wrapped. One trait covers them all by
//! blanket implementations that differ in a marker type `M`; the compiler infers it, because each connection fits one.

use diesel_jobs_core::{InvalidJob, JobContext, JobId, NewJob};

use crate::error::{CompleteError, EnqueueError, MigrateError};

/// Marks diesel-async connections to PostgreSQL.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub enum PgAsync {}
/// Marks diesel's own connections to PostgreSQL.
#[cfg(feature = "postgres-sync")]
#[derive(Debug)]
pub enum PgSync {}
/// Marks diesel-async's wrapped connections to SQLite.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
pub enum SqliteAsync {}
/// Marks diesel's own connections to SQLite.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
pub enum SqliteSync {}

/// A connection that jobs can be written through. Sync connections answer a `Result`, async ones a future of it.
#[diagnostic::on_unimplemented(
    message = "jobs cannot be enqueued through `{Self}`",
    label = "not a connection that `diesel-jobs` knows",
    note = "pass `&mut` to an AsyncPgConnection or a pool object of it (feature `postgres`), a PgConnection or an r2d2 object of it \
            (feature `postgres-sync`), or a SqliteConnection or SyncConnectionWrapper of it (feature `sqlite`)",
    note = "inside `conn.transaction(..)`, pass the `conn` that the closure was given"
)]
pub trait Executor<M> {
    /// `Result<T, E>`, or a future of it.
    type Output<'c, T, E>
    where
        Self: 'c,
        T: Send + 'static,
        E: Send + 'static;

    /// Inserts one job. An invalid one answers its error and sends nothing.
    fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> Self::Output<'_, JobId, EnqueueError>;

    /// Inserts many jobs; ids in the order of the jobs. All or none.
    fn insert_all(&mut self, jobs: Result<Vec<NewJob>, InvalidJob>) -> Self::Output<'_, Vec<JobId>, EnqueueError>;

    /// Completes the running job inside the transaction the connection is in.
    fn complete(&mut self, ctx: &JobContext) -> Self::Output<'_, (), CompleteError>;

    /// Brings the schema up to this program's.
    fn migrate(&mut self) -> Self::Output<'_, (), MigrateError>;
}
