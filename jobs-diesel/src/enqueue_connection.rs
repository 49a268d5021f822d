//! The operations on the application's own connection, for every type of connection.
//!
//! A connection is sync or async, to PostgreSQL or to SQLite, plain, pooled or wrapped. One trait covers all of them.
//! It has several blanket implementations, which differ in a marker type `M`. Only one of them fits each connection, so
//! the compiler infers `M`.

use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob};
use serde::de::DeserializeOwned;

use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::job_change::{ChangeError, JobChange};
use crate::stored_output::OutputError;

/// Marks diesel-async connections to PostgreSQL.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub enum PgAsync {}
/// Marks shared references to diesel-async connections to PostgreSQL, which pipeline their statements.
#[cfg(feature = "postgres")]
#[derive(Debug)]
pub enum PgPipelined {}
/// Marks diesel's own connections to PostgreSQL.
#[cfg(feature = "postgres")]
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

/// A connection of your application through which you can enqueue jobs. Sync connections return a `Result`, and async
/// connections return a future of it.
#[cfg_attr(
    all(feature = "postgres", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "jobs cannot be enqueued through `{Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres")),
    diagnostic::on_unimplemented(
        message = "jobs cannot be enqueued through `{Self}`; a connection to PostgreSQL needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "jobs cannot be enqueued through `{Self}`; a connection to PostgreSQL needs \
                   `diesel-jobs = {{ features = [\"postgres\"] }}` in Cargo.toml, and one to SQLite needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection that `diesel-jobs` knows",
    note = "pass `&mut` to an AsyncPgConnection, a PgConnection or a pool object of one (feature `postgres`), or to a SqliteConnection or \
            SyncConnectionWrapper of it (feature `sqlite`)",
    note = "from a pool, take a connection first: `let mut conn = pool.get().await?;` (`pool.get()?` with r2d2), and pass `&mut conn`",
    note = "inside `conn.transaction(..)`, pass the `conn` that the closure was given"
)]
pub trait EnqueueConnection<M> {
    /// `Result<T, E>`, or a future of it.
    type Output<'c, T, E>
    where
        Self: 'c,
        T: Send + 'static,
        E: Send + 'static;

    /// Inserts one job. If the job is invalid, this sends nothing and returns the error.
    fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> Self::Output<'_, Enqueued, EnqueueError>;

    /// Inserts all of these jobs or none of them. Returns one [`Enqueued`] per job, in the order of the jobs.
    fn insert_all(&mut self, jobs: Result<Vec<NewJob>, InvalidJob>) -> Self::Output<'_, Vec<Enqueued>, EnqueueError>;

    /// Cancels, retries or reschedules jobs, and returns how many it has changed.
    fn change(&mut self, change: Result<JobChange, ChangeError>) -> Self::Output<'_, usize, ChangeError>;

    /// Reads the output of a job.
    fn output<T>(&mut self, id: JobId) -> Self::Output<'_, Option<T>, OutputError>
    where
        T: DeserializeOwned + Send + 'static;
}

/// An [`EnqueueConnection`] that can also begin and end transactions.
#[cfg_attr(
    all(feature = "postgres", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "`{Self}` cannot begin and end transactions")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres")),
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot begin and end transactions; a connection to PostgreSQL needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot begin and end transactions; a connection to PostgreSQL needs \
                   `diesel-jobs = {{ features = [\"postgres\"] }}` in Cargo.toml, and one to SQLite needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection that begins transactions",
    note = "pass `&mut` to an AsyncPgConnection, a PgConnection or a pool object of one (feature `postgres`), or to a SqliteConnection or \
            SyncConnectionWrapper of it (feature `sqlite`); a shared `&AsyncPgConnection` only enqueues"
)]
pub trait TransactionConnection<M>: EnqueueConnection<M> {
    /// Completes the running job inside the transaction that the connection is in.
    fn complete(&mut self, ctx: &JobContext) -> Self::Output<'_, (), CompleteError>;

    /// Migrates the schema to the version of this program.
    fn migrate(&mut self) -> Self::Output<'_, (), MigrateError>;
}
