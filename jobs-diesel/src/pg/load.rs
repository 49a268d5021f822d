//! `load`: the rows of a handler that takes no connection.
//!
//! They come from a connection of the handlers' pool, which goes back to the pool before the handler is called. One row
//! is read by one statement without a transaction. Several are read in one transaction that sees one snapshot. Behind a
//! pooler in transaction mode every row is read in a transaction, because the two messages of a statement could
//! otherwise reach two sessions. The worker's own connections are not used, because they must never wait for a lock of
//! the application.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel::QueryResult;
use diesel::result::Error as DieselError;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, TransactionManager as _};
use diesel_jobs_core::storage::{Loaded, LoadedHandler, Loading, LoadingBody};
use diesel_jobs_core::{Handled, JobError};

use super::pools::Object;
use super::stale::Stale;
use super::transact::{STALE, connections, is_closed_at_once};
use super::{PgStorage, no_connection, server_message, stale, unavailable};
use crate::meaning::{conflict, is_closed};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

pub(super) async fn load(storage: &PgStorage, loading: Loading) -> Loaded {
    let Loading { lease, body, rows, abort } = loading;
    let sessions = storage.connector.sessions();
    // Connections that are opened before this is known could not complete the jobs of transactional handlers.
    let learnt = tokio::select! {
        learnt = sessions.learn(storage) => learnt,
        () = abort.cancelled() => return Loaded::Aborted,
    };
    if let Err(problem) = learnt {
        return Loaded::NotLoaded(problem);
    }
    let in_transaction = rows > 1 || !sessions.are_kept();
    let mut interrupted = None;
    for _ in 0..connections(storage.handlers.status().max_size) {
        let checkout = tokio::select! {
            checkout = storage.handlers.get() => checkout,
            () = abort.cancelled() => return Loaded::Aborted,
        };
        let mut conn = match checkout {
            Ok(conn) => conn,
            Err(error) if is_closed_at_once(&error) => continue,
            // While the server recovers from what the rows have done to it, it opens no connection.
            Err(error) => {
                return interrupted.map_or_else(|| Loaded::NotLoaded(no_connection(error)), Loaded::Interrupted);
            }
        };
        let (cancel, rotation) = (conn.cancel_token(), storage.connector.rotation());
        let loaded = {
            let mut run = Box::pin(run(&mut conn, &body, in_transaction));
            let loaded = tokio::select! {
                loaded = &mut run => Some(loaded),
                () = abort.cancelled() => None,
            };
            // As in `transact`: what the future holds may panic when it is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(run)));
            loaded
        };
        match loaded {
            Some(Ok(Ok(handler))) => return Loaded::Handler(handler),
            Some(Ok(Err(Err(error)))) if !closed(&error) => {
                return failed(error, |stale| rotation.is_stale_for(Some(lease), &mut conn, stale));
            }
            Some(Ok(Err(Ok(outcome)))) => return Loaded::Ended(Ok(outcome)),
            Some(Err(error)) if !is_closed(&error) => {
                return failed(JobError::new(error), |stale| rotation.is_stale_for(Some(lease), &mut conn, stale));
            }
            // Nothing was written, so another connection may read the rows.
            Some(read) => {
                if let Ok(Err(Err(error))) = read {
                    let error = server_message::added_to_failure(error, &mut conn);
                    interrupted = Some(server_message::interruption(error, false));
                }
                drop(Object::take(conn));
            }
            None => {
                storage.connector.cancel(cancel).await;
                drop(Object::take(conn));
                return Loaded::Aborted;
            }
        }
    }
    if let Some(interruption) = interrupted {
        return Loaded::Interrupted(interruption);
    }
    let problem = "the server closed every connection before a job's rows were loaded";
    Loaded::NotLoaded(unavailable(std::io::Error::new(std::io::ErrorKind::ConnectionReset, problem)))
}

async fn run(
    conn: &mut AsyncPgConnection,
    body: &LoadingBody,
    in_transaction: bool,
) -> QueryResult<Result<LoadedHandler, Handled>> {
    if !in_transaction {
        return Ok(body(conn).await);
    }
    AnsiTransactionManager::begin_transaction_sql(conn, BEGIN).await?;
    let loaded = body(conn).await;
    // If this fails, the connection is broken, and the pool does not hand it out again. What was read stays read.
    let _ = match &loaded {
        Ok(_) => AnsiTransactionManager::commit_transaction(conn).await,
        Err(_) => AnsiTransactionManager::rollback_transaction(conn).await,
    };
    Ok(loaded)
}

/// The rows could not be read. If that is because of a conflict, or of a session that has gone stale, they can be read
/// again at once.
fn failed(error: JobError, is_stale: impl FnOnce(Option<Stale>) -> bool) -> Loaded {
    match conflict::of_handler(&error) {
        Some(what) => Loaded::Conflict { what, error },
        None if is_stale(stale::of_transaction(&error)) => Loaded::Conflict { what: STALE, error },
        None => Loaded::Ended(Err(error)),
    }
}

/// Whether the attempt would end because the server has closed the connection.
fn closed(error: &JobError) -> bool {
    error.causes().filter_map(|cause| cause.downcast_ref::<DieselError>()).any(is_closed)
}
