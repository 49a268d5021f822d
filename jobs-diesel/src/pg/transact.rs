//! `transact`: a handler inside the transaction that finishes its job, or all jobs of its batch.
//!
//! The finish is the transaction's last statement. It locks the rows of `jobs.running` only then, so that a rescue
//! never waits for a handler. It names the leases, so that a handler that was too slow rolls back. If it is the plain
//! completion of one job, it is sent in one message with the `COMMIT` ([`end`]). The `BEGIN` has its own round trip. If
//! it were sent together with the handler's first statement and refused, that statement would commit by itself.

#[cfg(feature = "postgres-sync")]
mod blocking;
mod end;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use deadpool::managed::PoolError;
use diesel::result::Error as DieselError;
use diesel::{ConnectionError, QueryResult};
use diesel_async::pooled_connection::PoolableConnection as _;
use diesel_async::{AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs_core::__private::crash_point;
use diesel_jobs_core::storage::{AsyncBody, Body, Interruption, Transacted, Transaction, finishes};
use diesel_jobs_core::{Finish, JobContext, JobError, Lease};

use super::not_connected::NotConnected;
use super::pools::Object;
use super::refused::HISTORY;
use super::sessions::Sessions;
use super::stale::Stale;
use super::{PgStorage, no_connection, server_message, stale, unavailable};
use crate::error::storage_error;
use crate::meaning::{conflict, is_closed, row};

#[cfg(feature = "postgres-sync")]
pub(crate) use blocking::{BlockingPool, blocking_pool};

/// Is added to an error that occurred after the handler.
const REFUSED: &str = "at the end of the job's transaction, which was rolled back";

/// Why the same attempt runs again.
const NOT_PREPARED: &str = "a session that had lost its prepared statements";
pub(super) const STALE: &str = "a session that may be older than a change of the database";

/// Is added to the error of a handler whose transaction refused a write. The transaction begins as one that writes.
const MADE_READ_ONLY: &str = "the handler made its transaction read only, or wrote through another connection that is";

/// On how many connections a transaction may be tried, if the earlier ones were closed. After a restart of the server,
/// all connections of the pool may be closed. New ones may be closed, too.
pub(super) fn connections(pool: usize) -> usize {
    pool + 3
}

/// Why a transaction was not committed.
enum Rollback {
    /// It did not begin.
    NotBegun(DieselError),
    Handler(JobError),
    /// The same, and a statement has failed in the transaction, whose error the handler's hides.
    Hidden(JobError),
    /// The connection was closed while the handler ran, or at the end.
    Interrupted(Interruption),
    LeaseLost,
    #[cfg(feature = "postgres-sync")]
    Aborted,
    /// The session should have a prepared statement for the completion, and has none.
    NotPrepared(DieselError),
    /// The server refused the end of the transaction and rolled it back. The session still works.
    Refused(DieselError),
    /// An error of the worker's own statements. It is unknown whether the transaction was committed.
    Database(DieselError),
}

impl Rollback {
    /// If the server accepts a `ROLLBACK` after an error, the error neither ended the session nor came after a commit.
    /// If it does not, because the connection `is_closed`, the attempt was interrupted. A handler that has decided
    /// itself what follows, or has kept its transaction open for too long, was not.
    fn after(self, rolled_back: bool, is_closed: bool) -> Self {
        match self {
            Self::Database(error) if rolled_back => Self::Refused(error),
            Self::Database(error)
                if is_closed
                    && conflict::of_statement(&error).is_none()
                    && !server_message::says_timeout(&error.to_string()) =>
            {
                let error = JobError::msg(format!("the database failed around the commit: {}", storage_error(error)));
                Self::Interrupted(server_message::interruption(error, true))
            }
            Self::Handler(error) | Self::Hidden(error)
                if is_closed && !error.says_what_follows() && !server_message::is_timeout(&error) =>
            {
                Self::Interrupted(server_message::interruption(error, false))
            }
            other => other,
        }
    }
}

/// The lease by which the attempt of these jobs is known.
fn lease_of(jobs: &[JobContext]) -> Option<Lease> {
    jobs.first().map(JobContext::lease)
}

/// `is_stale` decides what follows for the connection, as
/// [`Rotation::is_stale_for`](super::rotation::Rotation::is_stale_for) does.
fn transacted(ended: Result<Vec<Finish>, Rollback>, is_stale: impl FnOnce(Option<Stale>) -> bool) -> Transacted {
    match ended {
        Ok(finishes) => Transacted::committed(finishes),
        Err(Rollback::NotBegun(error)) => Transacted::NotBegun(storage_error(error)),
        Err(Rollback::Handler(error)) => match conflict::of_handler(&error) {
            Some(what) => Transacted::Conflict { what, error },
            None if is_stale(stale::of_transaction(&error)) => Transacted::Conflict { what: STALE, error },
            None if stale::was_read_only(&error) => Transacted::RolledBack(error.noted(MADE_READ_ONLY)),
            None => Transacted::RolledBack(error),
        },
        Err(Rollback::Hidden(error)) => match conflict::of_handler(&error) {
            Some(what) => Transacted::Conflict { what, error },
            None if is_stale(Some(stale::of_hidden(&error))) => Transacted::Conflict { what: STALE, error },
            None => Transacted::RolledBack(error),
        },
        Err(Rollback::Interrupted(interruption)) => Transacted::Interrupted(interruption),
        Err(Rollback::LeaseLost) => Transacted::LeaseLost,
        #[cfg(feature = "postgres-sync")]
        Err(Rollback::Aborted) => Transacted::Aborted,
        Err(Rollback::NotPrepared(error)) => Transacted::Conflict { what: NOT_PREPARED, error: JobError::new(error) },
        Err(Rollback::Refused(error)) => match conflict::of_statement(&error) {
            Some(what) => Transacted::Conflict { what, error: JobError::new(error) },
            // The finished row is then set apart, so that the same attempt may succeed at once.
            None if row::is_history(&error) => Transacted::Conflict { what: HISTORY, error: JobError::new(error) },
            None if is_stale(stale::of_end(&error)) => {
                Transacted::Conflict { what: STALE, error: JobError::new(error) }
            }
            None if stale::is_read_only(&error) => Transacted::RolledBack(JobError::new(error).noted(MADE_READ_ONLY)),
            None => Transacted::RolledBack(JobError::new(storage_error(error)).noted(REFUSED)),
        },
        Err(Rollback::Database(error)) => match conflict::of_statement(&error) {
            // This also holds at the commit: a server that reports a conflict has rolled back.
            Some(what) => Transacted::Conflict { what, error: JobError::new(error) },
            None => Transacted::Unknown(storage_error(error)),
        },
    }
}

/// Returns the SQL that begins the transaction. It allows writes even if the database's default is read only, because
/// the finish is a write. All other settings keep the application's defaults. The application name shows in
/// `pg_stat_activity` which job holds a lock. [`UNNAMED`] removes it.
///
/// The name is set by a query in a transaction of its own. `pg_stat_statements` makes one entry of all names only for a
/// query. A query inside the handler's transaction would take its snapshot before the handler's first statement, which
/// may be a `lock table` or a `set transaction`.
fn begin(storage: &PgStorage, jobs: &[JobContext]) -> String {
    let name = storage.connector.application_name();
    let harmless: String =
        name.chars().filter(|c| c.is_ascii() && !c.is_ascii_control() && !"'\\".contains(*c)).take(40).collect();
    let jobs = match jobs {
        [one] => one.id().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.id(), others.len()),
        [] => String::new(),
    };
    format!(
        "begin isolation level read committed; select set_config('application_name', '{harmless}: job {jobs}', false); \
         end; BEGIN READ WRITE"
    )
}

/// Gives the session its own application name again.
const UNNAMED: &str = "reset application_name";

/// Ends the transaction after an error, even from within a savepoint that the handler left open.
fn rollback() -> String {
    format!("ROLLBACK; {UNNAMED}")
}

pub(crate) async fn transact(storage: &PgStorage, transaction: Transaction) -> Transacted {
    let Transaction { jobs, body, abort, .. } = transaction;
    let body = match body {
        Body::Async(body) => body,
        #[cfg(feature = "postgres-sync")]
        Body::Blocking(body) => return blocking::transact(storage, jobs, body, abort).await,
        #[cfg(not(feature = "postgres-sync"))]
        Body::Blocking(_) => {
            return Transacted::RolledBack(JobError::msg("this program was built without the feature `postgres-sync`"));
        }
    };
    let begin = begin(storage, &jobs);
    let learnt = tokio::select! {
        learnt = storage.connector.sessions().learn(storage) => learnt,
        () = abort.cancelled() => return Transacted::Aborted,
    };
    if let Err(problem) = learnt {
        return Transacted::NotBegun(problem);
    }
    for _ in 0..connections(storage.handlers.status().max_size) {
        let checkout = tokio::select! {
            checkout = storage.handlers.get() => checkout,
            () = abort.cancelled() => return Transacted::Aborted,
        };
        let mut conn = match checkout {
            Ok(conn) => conn,
            Err(error) if is_closed_at_once(&error) => continue,
            Err(error) => return Transacted::NotBegun(no_connection(error)),
        };
        let (cancel, rotation) = (conn.cancel_token(), storage.connector.rotation());
        let ended = {
            let mut run = Box::pin(run(&mut conn, &begin, storage.connector.sessions(), &jobs, &body));
            let ended = tokio::select! {
                ended = &mut run => Some(ended),
                () = abort.cancelled() => None,
            };
            // The values that the handler holds may panic when they are dropped. The connection would then go back to
            // the pool as it is.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(run)));
            ended
        };
        match ended {
            Some(Err(Rollback::NotBegun(error)))
                if is_closed(&error)
                    || conn.is_broken()
                    || rotation.is_stale(&mut conn, stale::of_statement(&error)) =>
            {
                drop(Object::take(conn));
            }
            Some(ended) => {
                crash_point("transaction-ended");
                return transacted(ended, |stale| rotation.is_stale_for(lease_of(&jobs), &mut conn, stale));
            }
            None => {
                // The future was dropped before its end. The server may still run its statement, and the transaction is
                // open. So the statement is cancelled, and the connection is closed to end the transaction. The
                // connection never goes back to the pool.
                storage.connector.cancel(cancel).await;
                drop(Object::take(conn));
                return Transacted::Aborted;
            }
        }
    }
    let problem = "the server closed every connection before a transaction could begin";
    Transacted::NotBegun(unavailable(std::io::Error::new(std::io::ErrorKind::ConnectionReset, problem)))
}

/// One transaction, from its beginning to its end.
async fn run(
    conn: &mut AsyncPgConnection,
    begin: &str,
    sessions: &Sessions,
    jobs: &[JobContext],
    body: &AsyncBody,
) -> Result<Vec<Finish>, Rollback> {
    AnsiTransactionManager::begin_transaction_sql(conn, begin).await.map_err(Rollback::NotBegun)?;
    let ended = match body(conn).await.and_then(|transitions| finishes(jobs, transitions)) {
        Ok(finishes) => end::end(conn, sessions, &finishes).await.map(|()| finishes),
        Err(error) => Err(Rollback::Handler(error)),
    };
    match ended {
        Ok(finishes) => Ok(finishes),
        Err(mut rollback) => {
            if end::may_be_aborted(&rollback) {
                rollback = end::probed(rollback, conn.batch_execute(end::PROBE).await);
            }
            let rollback = match rollback {
                Rollback::Handler(error) => Rollback::Handler(server_message::added_to_failure(error, conn)),
                Rollback::Database(error) => Rollback::Database(server_message::added_to(error, conn)),
                rollback => rollback,
            };
            let rolled_back = roll_back(conn).await.is_ok();
            Err(rollback.after(rolled_back, !rolled_back && conn.is_broken()))
        }
    }
}

/// Rolls back the whole transaction. If that fails, the connection is broken, and the pool does not hand it out again.
async fn roll_back(conn: &mut AsyncPgConnection) -> QueryResult<()> {
    conn.batch_execute(&rollback()).await?;
    // No transaction is open any more, but Diesel did not see its end.
    *conn.transaction_state() = AnsiTransactionManager::default();
    Ok(())
}

/// Whether the server closed a new connection during its setup, as with an `idle_session_timeout` of a few
/// milliseconds.
pub(super) fn is_closed_at_once(error: &PoolError<NotConnected>) -> bool {
    match error {
        PoolError::Backend(NotConnected::Other(ConnectionError::CouldntSetupConfiguration(error))) => is_closed(error),
        _ => false,
    }
}
