//! Runs a transactional handler, or loads a handler's rows, inside the transaction of a test. This happens in a
//! savepoint, which is rolled back if the handler fails.

use diesel_jobs_core::JobError;
use diesel_jobs_core::testing::calls;

/// Rolls back the savepoint of a handler that failed.
struct Rollback(JobError);

impl From<diesel::result::Error> for Rollback {
    fn from(error: diesel::result::Error) -> Self {
        Self(JobError::new(error))
    }
}

/// Calls a plain handler.
#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
pub(super) fn blocking<C: diesel::Connection, T>(
    conn: &mut C,
    handle: impl FnOnce(&mut C) -> Result<T, JobError>,
) -> Result<T, JobError> {
    use diesel::connection::TransactionManager as _;
    let depth = |conn: &mut C| C::TransactionManager::transaction_manager_status_mut(conn).transaction_depth();
    let handled = conn.transaction(|conn| {
        let outside = depth(conn)?;
        let handled = calls::caught_blocking(|| handle(conn));
        // A handler that panics inside a transaction of its own leaves it open.
        while handled.is_err() && depth(conn)? > outside {
            C::TransactionManager::rollback_transaction(conn)?;
        }
        handled.map_err(Rollback)
    });
    handled.map_err(|Rollback(error)| error)
}

/// How long the rollback may take after a handler exceeded its time limit.
#[cfg(feature = "postgres")]
pub(super) const ROLLBACK_LIMIT: std::time::Duration = std::time::Duration::from_secs(2);

/// Calls an async handler, for at most this time.
#[cfg(feature = "postgres")]
pub(super) async fn asynchronous<T: Send>(
    conn: &mut diesel_async::AsyncPgConnection,
    limit: std::time::Duration,
    handle: impl for<'c> FnOnce(
        diesel_jobs_core::AnyConnection<'c>,
    ) -> futures_util::future::BoxFuture<'c, Result<T, JobError>>
    + Send,
) -> Result<Result<T, JobError>, calls::Expired> {
    use diesel_async::{AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, TransactionManager as _};
    let depth =
        |conn: &mut AsyncPgConnection| AnsiTransactionManager::transaction_manager_status_mut(conn).transaction_depth();
    let roll_back = async |conn: &mut AsyncPgConnection, outside| {
        while depth(conn)? > outside {
            AnsiTransactionManager::rollback_transaction(conn).await?;
        }
        diesel::QueryResult::Ok(())
    };
    let outside = depth(conn);
    let handled = conn.transaction(async |conn| {
        let outside = depth(conn)?;
        let handled = calls::caught(handle(conn)).await;
        if handled.is_err() {
            roll_back(conn, outside).await?;
        }
        handled.map_err(Rollback)
    });
    let handled = calls::within(limit, Box::pin(handled)).await;
    if let (Err(calls::Expired), Ok(outside)) = (&handled, outside) {
        // The handler's last statement may wait for a lock, and the rollback would wait for the statement.
        let _ = calls::within(ROLLBACK_LIMIT, Box::pin(roll_back(conn, outside))).await;
    }
    Ok(handled?.map_err(|Rollback(error)| error))
}
