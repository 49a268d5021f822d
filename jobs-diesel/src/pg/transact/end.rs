//! The end of a handler's transaction.
//!
//! Usually it is one message: `set local ..; execute complete_in ..; COMMIT`. The server executes it in order and stops
//! at the first error. So nothing is committed without the finish, and the finish fails if the lease is lost. If two
//! statements were sent one after the other without waiting (pipelined), their order would depend on the implementation
//! of the client.
//!
//! If the message fails, it is unknown which of its statements failed. But it is known whether anything was committed:
//! a server that answers with an error, and then accepts the `ROLLBACK`, has committed nothing.

use diesel::result::Error as DieselError;
use diesel_async::{AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_async::{RunQueryDsl, TransactionManager as _};
use diesel_jobs_core::__private::{crash_point, crash_soon};
use diesel_jobs_core::{Finish, JobError, Lease, Transition};

use super::Rollback;
use crate::pg::queries::complete_in::{self, CompleteIn};
use crate::pg::queries::finish_batch;
use crate::pg::queries::store_outputs::StoreOutputsQuery;
use crate::pg::sessions::Sessions;

/// After an error PostgreSQL accepts no more statements in a transaction, so nothing of the handler's could be
/// committed.
const SWALLOWED: &str = "the handler continued after a statement failed in its transaction, so everything was rolled back; \
    return the error, or run statements that may fail inside `conn.transaction(..)`, which makes a savepoint";

/// If a future of `conn.transaction(..)` is dropped before its end, its savepoint stays open.
const LEFT_OPEN: &str = "the handler did not end a `conn.transaction(..)`, so everything was rolled back; \
    await it to its end, and put no `timeout` or `select!` around it";

/// The application's time limits are for its own statements. Our statements wait only for a session that takes the
/// lease away.
pub(super) const UNLIMITED: &str = "set local statement_timeout = 0; set local lock_timeout = 0";

/// Returns the whole end of the transaction as one message. `None` if the job is not completed. `enable_seqscan` is off
/// for our statement only, because triggers of the application may run at the commit.
pub(super) fn message(sessions: &Sessions, lease: Lease, transition: &Transition) -> Option<String> {
    let complete = CompleteIn::new(lease, transition)?;
    let complete = if sessions.are_kept() { complete.prepared() } else { complete.in_full() };
    Some(format!(
        "{UNLIMITED}; set local enable_seqscan = off; {complete}; set local enable_seqscan to default; COMMIT"
    ))
}

/// Finishes the job and commits.
pub(super) async fn end(
    conn: &mut AsyncPgConnection,
    sessions: &Sessions,
    lease: Lease,
    transition: &Transition,
) -> Result<(), Rollback> {
    let status = AnsiTransactionManager::transaction_manager_status_mut(conn);
    is_outermost(status.transaction_depth())?;
    crash_point("transaction-finish");
    if let Some(store) = StoreOutputsQuery::for_one(lease, transition) {
        conn.batch_execute(UNLIMITED).await.map_err(|error| refused(sessions, error))?;
        RunQueryDsl::execute(store, conn).await.map_err(|error| refused(sessions, error))?;
    }
    if let Some(message) = message(sessions, lease, transition) {
        crash_soon("transaction-commit");
        conn.batch_execute(&message).await.map_err(|error| refused(sessions, error))?;
        // No transaction is open any more, but Diesel did not see its end.
        *conn.transaction_state() = AnsiTransactionManager::default();
        return Ok(());
    }
    conn.batch_execute(UNLIMITED).await.map_err(|error| refused(sessions, error))?;
    let finish = [Finish { lease, transition: transition.clone() }];
    if !finish_batch::finish_in(conn, &finish).await.map_err(Rollback::Database)? {
        return Err(Rollback::LeaseLost);
    }
    crash_point("transaction-commit");
    AnsiTransactionManager::commit_transaction(conn).await.map_err(Rollback::Database)
}

/// Fails if the handler has left a savepoint open. A `COMMIT` would also commit what was done in that savepoint.
pub(super) fn is_outermost(depth: diesel::QueryResult<Option<std::num::NonZeroU32>>) -> Result<(), Rollback> {
    match depth.map_err(Rollback::Database)? {
        Some(depth) if depth.get() > 1 => Err(Rollback::Handler(JobError::msg(LEFT_OPEN))),
        _ => Ok(()),
    }
}

/// Why the end was refused. If the transaction is already aborted, a statement of the handler caused that, because this
/// is our first statement after the handler.
pub(super) fn refused(sessions: &Sessions, error: DieselError) -> Rollback {
    let DieselError::DatabaseError(_, info) = &error else { return Rollback::Database(error) };
    let message = info.message();
    if message.starts_with("current transaction is aborted") {
        Rollback::Handler(JobError::msg(SWALLOWED))
    } else if complete_in::says_lease_lost(message) {
        Rollback::LeaseLost
    } else if complete_in::says_not_prepared(message) {
        sessions.are_not_kept();
        Rollback::NotPrepared(error)
    } else {
        Rollback::Database(error)
    }
}
