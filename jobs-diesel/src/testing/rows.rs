//! Handlers that take rows and no connection. The rows are loaded through the test's connection, in a savepoint. Then
//! the handler is called like a handler without rows.

use std::time::Duration;

use diesel_jobs_core::testing::calls::{self, Expired};
use diesel_jobs_core::{AnyConnection, Handled, JobContext, LoadedHandler, Outcome, RowHandler};
use tokio::sync::oneshot;

use super::savepoint;

/// The handler with its rows, or how the attempt ends without it.
pub(super) type Loaded = Result<LoadedHandler, Handled>;

/// Loads the rows through a sync connection.
#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
pub(super) fn through_sync<C: diesel::Connection + Send + 'static>(
    conn: &mut C,
    handler: RowHandler,
    ctx: JobContext,
) -> Loaded {
    let (sender, receiver) = oneshot::channel();
    let ended = savepoint::blocking(conn, |conn| super::now(Box::pin(load(conn, handler, ctx, sender))));
    received(receiver, ended)
}

/// Loads the rows through an async connection, for at most this time.
#[cfg(feature = "postgres")]
pub(super) async fn through_async(
    conn: &mut diesel_async::AsyncPgConnection,
    handler: RowHandler,
    ctx: JobContext,
    limit: Duration,
) -> Result<Loaded, Expired> {
    let (sender, receiver) = oneshot::channel();
    let load = savepoint::asynchronous(conn, limit, |conn| Box::pin(load(conn, handler, ctx, sender)));
    Ok(received(receiver, load.await?))
}

/// Loads the rows and sends the handler. Returns what the savepoint needs: an error rolls it back.
async fn load(
    conn: AnyConnection<'_>,
    handler: RowHandler,
    ctx: JobContext,
    loaded: oneshot::Sender<LoadedHandler>,
) -> Handled {
    match (handler.load)(conn, ctx).await {
        Ok(handler) => {
            // The receiver is dropped only after this future.
            let _ = loaded.send(handler);
            Ok(Outcome::Complete)
        }
        Err(ended) => ended,
    }
}

fn received(mut loaded: oneshot::Receiver<LoadedHandler>, ended: Handled) -> Loaded {
    loaded.try_recv().map_err(|_| ended)
}

/// Calls the handler from a thread that may block.
#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
pub(super) fn call_blocking(loaded: Loaded, ctx: JobContext, limit: Duration) -> Result<Handled, Expired> {
    match loaded {
        Ok(LoadedHandler::Async(handler)) => calls::on_a_thread(|_| handler, ctx, limit),
        Ok(LoadedHandler::Blocking(handler)) => calls::blocking_on_a_thread(|_| handler(), ctx, limit),
        Err(ended) => Ok(ended),
    }
}

/// Calls the handler.
pub(super) async fn call(loaded: Loaded, ctx: JobContext, limit: Duration) -> Result<Handled, Expired> {
    match loaded {
        Ok(LoadedHandler::Async(handler)) => calls::caught_within(limit, handler).await,
        Ok(LoadedHandler::Blocking(handler)) => calls::on_a_thread_async(|_| handler(), ctx, limit).await,
        Err(ended) => Ok(ended),
    }
}
