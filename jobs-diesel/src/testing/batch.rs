//! Batch handlers in tests: with a batch of one job. If the handler takes the connection, its savepoint is rolled back
//! after an error of the whole batch, and not after the error of a job. A worker treats its transaction in the same
//! way.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::time::Duration;

#[cfg(feature = "postgres")]
use diesel_jobs_core::testing::calls::Expired;
use diesel_jobs_core::{BatchAnswer, Handled, JobContext, of_one_job};
use futures_util::future::BoxFuture;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::savepoint;

/// Calls a handler that takes no connection.
pub(super) async fn plain(handle: fn(Vec<JobContext>) -> BoxFuture<'static, BatchAnswer>, ctx: JobContext) -> Handled {
    of_one_job(handle(vec![ctx]).await).flatten()
}

/// Calls an async handler that takes the connection.
#[cfg(feature = "postgres")]
pub(super) async fn asynchronous(
    conn: &mut diesel_async::AsyncPgConnection,
    handle: for<'c> fn(diesel_jobs_core::AnyConnection<'c>, Vec<JobContext>) -> BoxFuture<'c, BatchAnswer>,
    ctx: JobContext,
    limit: Duration,
) -> Result<Handled, Expired> {
    let call =
        savepoint::asynchronous(conn, limit, |conn| Box::pin(async move { of_one_job(handle(conn, vec![ctx]).await) }));
    Ok(call.await?.flatten())
}

/// Calls a plain function that takes the connection.
#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
pub(super) fn blocking<C: diesel::Connection + 'static>(
    conn: &mut C,
    handle: fn(diesel_jobs_core::AnyConnection<'_>, Vec<JobContext>) -> BatchAnswer,
    ctx: &JobContext,
    limit: Duration,
) -> Handled {
    let call = |conn: &mut C| super::stuck::reported(ctx, limit, || of_one_job(handle(conn, vec![ctx.clone()])));
    savepoint::blocking(conn, call).flatten()
}
