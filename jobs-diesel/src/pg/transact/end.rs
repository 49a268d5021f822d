//! The end of a handler's transaction.
//!
//! Usually it is one message: `set local ..; execute complete_in ..; COMMIT`. The server executes it in order and stops
//! at the first error. So nothing is committed without the finish, and the finish fails if the lease is lost. If two
//! statements were sent one after the other without waiting (pipelined), their order would depend on the implementation
//! of the client.
//!
//! The finishes of several jobs, and those that are no plain completions, are a statement of their own before the
//! `COMMIT`.
//!
//! If the message fails, it is unknown which of its statements failed. But it is known whether anything was committed:
//! a server that answers with an error, and then accepts the `ROLLBACK`, has committed nothing.
//!
//! If the reply to the message is lost, it is unknown whether the transaction was committed. The worker then releases
//! the job, or lets the attempt fail, under the same lease. This has an effect only if the transaction was rolled back.

use diesel::QueryResult;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_async::{AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_async::{RunQueryDsl, TransactionManager as _};
use diesel_jobs_core::__private::{crash_point, crash_soon};
use diesel_jobs_core::{Finish, JobError};

use super::{Rollback, UNNAMED};
use crate::pg::queries::complete_in::{self, CompleteIn};
use crate::pg::queries::finish_batch;
use crate::pg::queries::store_outputs::StoreOutputsQuery;
use crate::pg::sessions::Sessions;
use crate::pg::stale;

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

/// The settings of a finish that is a statement of its own. It looks up each job by its id, even if the planner takes
/// the tables for empty. Without `enable_seqscan` the estimated costs are so high that the statement would be compiled,
/// which takes half a second.
pub(super) const BY_INDEX: &str = "set local jit = off; set local enable_seqscan = off; set local enable_hashjoin = off; \
    set local enable_mergejoin = off";
/// The settings after such a finish. Triggers of the application may run at the commit, and these settings are not for
/// them.
const AS_BEFORE: &str = "set local jit to default; set local enable_seqscan to default; set local enable_hashjoin to default; \
    set local enable_mergejoin to default";

/// Commits after these settings. The job's name is removed before the commit: if the statement after a `COMMIT` was
/// cancelled, the error would say that nothing was committed.
pub(super) fn commit_after(settings: &str) -> String {
    format!("{settings}; {UNNAMED}; COMMIT")
}

/// The end after a finish that was a statement of its own.
pub(super) fn commit() -> String {
    commit_after(AS_BEFORE)
}

/// Returns the whole end of the transaction as one message. `None` if it does more than to complete one job.
/// `enable_seqscan` is off for our statement only, as in [`AS_BEFORE`].
pub(super) fn message(sessions: &Sessions, finishes: &[Finish]) -> Option<String> {
    let [finish] = finishes else { return None };
    let complete = CompleteIn::new(finish)?;
    let complete = if sessions.are_kept() { complete.prepared() } else { complete.in_full() };
    Some(commit_after(&format!(
        "{UNLIMITED}; set local enable_seqscan = off; {complete}; set local enable_seqscan to default"
    )))
}

/// Finishes the jobs and commits.
pub(super) async fn end(
    conn: &mut AsyncPgConnection,
    sessions: &Sessions,
    finishes: &[Finish],
) -> Result<(), Rollback> {
    let status = AnsiTransactionManager::transaction_manager_status_mut(conn);
    is_outermost(status.transaction_depth())?;
    crash_point("transaction-finish");
    let outputs = StoreOutputsQuery::for_batch(finishes);
    if !outputs.is_empty() {
        conn.batch_execute(UNLIMITED).await.map_err(|error| refused(sessions, error))?;
    }
    for store in outputs {
        RunQueryDsl::execute(store, conn).await.map_err(|error| refused(sessions, error))?;
    }
    let message = match message(sessions, finishes) {
        Some(message) => {
            crash_soon("transaction-commit");
            message
        }
        None => {
            let settings = format!("{UNLIMITED}; {BY_INDEX}");
            conn.batch_execute(&settings).await.map_err(|error| refused(sessions, error))?;
            if !finish_batch::finish_in(conn, finishes).await.map_err(Rollback::Database)? {
                return Err(Rollback::LeaseLost);
            }
            crash_point("transaction-commit");
            commit()
        }
    };
    conn.batch_execute(&message).await.map_err(|error| refused(sessions, error))?;
    // No transaction is open any more, but Diesel did not see its end.
    *conn.transaction_state() = AnsiTransactionManager::default();
    Ok(())
}

/// Fails if the handler has left a savepoint open. A `COMMIT` would also commit what was done in that savepoint.
pub(super) fn is_outermost(depth: QueryResult<Option<std::num::NonZeroU32>>) -> Result<(), Rollback> {
    match depth.map_err(Rollback::Database)? {
        Some(depth) if depth.get() > 1 => Err(Rollback::Handler(JobError::msg(LEFT_OPEN))),
        _ => Ok(()),
    }
}

/// Why the end was refused.
pub(super) fn refused(sessions: &Sessions, error: DieselError) -> Rollback {
    let DieselError::DatabaseError(_, info) = &error else { return Rollback::Database(error) };
    let message = info.message();
    if complete_in::says_lease_lost(message) {
        Rollback::LeaseLost
    } else if complete_in::says_not_prepared(message) {
        sessions.are_not_kept();
        Rollback::NotPrepared(error)
    } else {
        Rollback::Database(error)
    }
}

/// A statement that every session executes, unless its transaction is aborted.
pub(super) const PROBE: &str = "select";

/// Whether the transaction may have been aborted by a statement whose error is not known. Then a statement of ours may
/// have been refused for that reason, for which Diesel has no kind.
pub(super) fn may_be_aborted(rollback: &Rollback) -> bool {
    match rollback {
        Rollback::Database(DieselError::DatabaseError(DatabaseErrorKind::Unknown, _)) => true,
        Rollback::Handler(error) => stale::may_be_hidden(error),
        _ => false,
    }
}

/// The failure of a handler whose transaction was aborted by one of its own statements. In whatever language the server
/// refused our statement for that reason, it refuses the [`PROBE`] with the same words.
pub(super) fn probed(rollback: Rollback, probe: QueryResult<()>) -> Rollback {
    let Err(DieselError::DatabaseError(DatabaseErrorKind::Unknown, refusal)) = probe else { return rollback };
    match rollback {
        Rollback::Database(DieselError::DatabaseError(_, first)) if first.message() == refusal.message() => {
            Rollback::Handler(JobError::msg(SWALLOWED))
        }
        Rollback::Handler(error) => Rollback::Hidden(error),
        rollback => rollback,
    }
}
