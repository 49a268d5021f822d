//! What the test functions need from a connection.

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls::{self, Expired};
use diesel_jobs_core::{
    ClaimedJob, Finish, Handled, Handler, JobContext, JobError, JobId, NewJob, ProgressReport, Registered, WorkerId,
};
use futures_util::future::BoxFuture;

use super::blocked::Blocked;
use super::expectation::Expectation;
use super::waiting::{Among, Waiting};

/// A connection of a test. The test functions use only this connection, inside its transaction if it is in one. This
/// trait is implemented for the connection types through which jobs can be enqueued.
#[async_trait]
#[cfg_attr(
    all(feature = "postgres-sync", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "jobs cannot be tested through `{Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres-sync")),
    diagnostic::on_unimplemented(
        message = "jobs cannot be tested through `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, and a PgConnection needs `features = [\"postgres-sync\"]`"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "jobs cannot be tested through `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, a PgConnection needs `features = [\"postgres-sync\"]`, and a SqliteConnection needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection that the testing kit knows",
    note = "pass `&mut` to a PgConnection, an AsyncPgConnection, a SqliteConnection or a SyncConnectionWrapper of it, or to a pool's object of one"
)]
pub trait TestConnection: Send + Sized + 'static {
    /// `T` for sync connections, and a future of it for async connections.
    type Answer<'c, T: Send + 'c>;

    /// Sync connections run the future to its end. Async connections return it.
    fn answer<'c, T: Send + 'c>(future: BoxFuture<'c, T>) -> Self::Answer<'c, T>;

    /// Whether a transactional handler that takes this connection type can run on this connection.
    fn provides(connection: TypeId) -> bool;

    /// These of the waiting jobs.
    async fn waiting(&mut self, among: Among) -> StorageResult<Waiting>;

    /// Moves a waiting job to `running`, as a claim does. Returns `None` if the job no longer waits.
    async fn start(&mut self, job: JobId, worker: WorkerId) -> StorageResult<Option<ClaimedJob>>;

    /// Calls a handler for at most this time. A handler that takes the connection runs in a transaction or a savepoint,
    /// which is rolled back if the handler fails.
    async fn call(&mut self, handler: Handler, ctx: JobContext, limit: Duration) -> Result<Handled, Expired>;

    /// Runs what a layer calls, for at most this time. An error means that it could not be called.
    async fn hook<T: Send + 'static>(
        &mut self,
        hook: BoxFuture<'static, T>,
        limit: Duration,
    ) -> Result<Result<T, JobError>, Expired> {
        Ok(Ok(calls::within(limit, hook).await?))
    }

    /// Whether another session waits for a lock that this connection's transaction holds.
    async fn blocked(&mut self) -> Blocked {
        Blocked::Unknown
    }

    /// Stores what a handler has reported of its progress.
    async fn store_progress(&mut self, reports: Vec<ProgressReport>) -> StorageResult<()>;

    /// Enqueues a job.
    async fn add(&mut self, job: NewJob) -> StorageResult<()>;

    /// Writes the finish of an attempt, without the rules for discarded jobs that a worker may have stored. Returns
    /// `false` if the job was no longer running.
    async fn finish(&mut self, finish: Finish) -> StorageResult<bool>;

    /// Checks what is enqueued. `assert_enqueued!` and `refute_enqueued!` call it. `fail` panics with a message. It is
    /// a function of the macros' output, so that the panic has the place of the assertion, on async connections, too.
    fn check<'c, J>(&'c mut self, expectation: Expectation<'c, J>, fail: fn(&str)) -> Self::Answer<'c, ()>
    where
        J: Registered + Send + 'c,
    {
        Self::answer(Box::pin(async move { expectation.verify(self.waiting(Among::All).await, fail) }))
    }
}

/// A connection of a test, a reference to one, or a pooled connection of deadpool, or of r2d2 with the feature
/// `postgres-sync`. With other pools, pass `&mut *conn`.
#[cfg_attr(
    all(feature = "postgres-sync", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "jobs cannot be tested through `{Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres-sync")),
    diagnostic::on_unimplemented(
        message = "jobs cannot be tested through `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, and a PgConnection needs `features = [\"postgres-sync\"]`"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "jobs cannot be tested through `{Self}`; an AsyncPgConnection needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml, a PgConnection needs `features = [\"postgres-sync\"]`, and a SqliteConnection needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection that the testing kit knows",
    note = "pass `&mut` to a PgConnection, an AsyncPgConnection, a SqliteConnection, a SyncConnectionWrapper of it, or \
            deadpool's object of one; for another pool's object pass `&mut *conn`"
)]
pub trait AsTestConnection {
    /// The type of the connection.
    type Connection: TestConnection;

    /// The connection.
    fn as_test_connection(&mut self) -> &mut Self::Connection;
}

impl<C: AsTestConnection + ?Sized> AsTestConnection for &mut C {
    type Connection = C::Connection;

    fn as_test_connection(&mut self) -> &mut C::Connection {
        (**self).as_test_connection()
    }
}

macro_rules! itself {
    ($connection:ty) => {
        impl AsTestConnection for $connection {
            type Connection = Self;

            fn as_test_connection(&mut self) -> &mut Self {
                self
            }
        }
    };
}

#[cfg(feature = "postgres")]
itself!(diesel_async::AsyncPgConnection);
#[cfg(feature = "postgres-sync")]
itself!(diesel::PgConnection);
#[cfg(feature = "sqlite")]
itself!(diesel::SqliteConnection);
#[cfg(feature = "sqlite")]
itself!(diesel_async::sync_connection_wrapper::SyncConnectionWrapper<diesel::SqliteConnection>);

impl<M> AsTestConnection for deadpool::managed::Object<M>
where
    M: deadpool::managed::Manager,
    M::Type: TestConnection,
{
    type Connection = M::Type;

    fn as_test_connection(&mut self) -> &mut M::Type {
        self
    }
}

// This feature has Diesel's `r2d2` in any case.
#[cfg(feature = "postgres-sync")]
impl<C> AsTestConnection for diesel::r2d2::PooledConnection<diesel::r2d2::ConnectionManager<C>>
where
    C: TestConnection + diesel::r2d2::R2D2Connection,
{
    type Connection = C;

    fn as_test_connection(&mut self) -> &mut C {
        self
    }
}
