//! `transact` for blocking handlers, on threads. A blocking function cannot be stopped. So an abort decides at once
//! that nothing will be committed.

use std::sync::Arc;
use std::time::Instant;

use diesel::ConnectionError;
use diesel::connection::{AnsiTransactionManager, SimpleConnection as _, TransactionManager as _};
use diesel::prelude::*;
use diesel::r2d2::{self, ManageConnection, Pool, PoolError, R2D2Connection as _};
use diesel::result::Error as DieselError;
use diesel_jobs_core::__private::{NoResult, crash_point, crash_soon, spawn_handler};
use diesel_jobs_core::storage::{BlockingBody, Transacted, finishes};
use diesel_jobs_core::{Finish, JobContext, StorageError};
use tokio_util::sync::CancellationToken;

use super::end::{BY_INDEX, PROBE, UNLIMITED, commit, is_outermost, may_be_aborted, message, probed, refused};
use super::{Rollback, connections, lease_of, transacted};
use crate::commit_decision::CommitDecision;
use crate::meaning::is_closed;
use crate::pg::connect::Connector;
use crate::pg::not_connected::NotConnected;
use crate::pg::pools::no_blocking_connection;
use crate::pg::queries::complete_in;
use crate::pg::queries::finish::FinishQuery;
use crate::pg::queries::finish_batch::Inside;
use crate::pg::queries::finish_variants::{EverythingQuery, LimitedQuery};
use crate::pg::queries::store_outputs::StoreOutputsQuery;
use crate::pg::rotation::Pooled;
use crate::pg::sessions::Sessions;
use crate::pg::{CHECKOUT_LIMIT, PgStorage, language, settings, stale, unavailable};

/// This text is used because libpq does not return the message that a server sends when it ends a connection.
const CLOSED: &str = "the server ended the connection, and its log says why \
    (an idle_in_transaction_session_timeout, for example, or an administrator)";

pub(crate) type BlockingPool = Pool<Manager>;

/// Opens connections of libpq.
#[derive(Clone)]
pub(crate) struct Manager(Arc<Connector>);

impl std::fmt::Debug for Manager {
    // The connector holds the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl ManageConnection for Manager {
    type Connection = Pooled<PgConnection>;
    type Error = r2d2::Error;

    fn connect(&self) -> Result<Self::Connection, r2d2::Error> {
        let generation = self.0.rotation().generation();
        let bad = |problem| r2d2::Error::ConnectionError(ConnectionError::BadConnection(problem));
        let [with_settings, without] = self.0.for_libpq().map_err(bad)?;
        let opened = match PgConnection::establish(&with_settings) {
            Err(error) if settings::are_refused(&error.to_string()) => PgConnection::establish(&without),
            opened => opened,
        };
        let mut conn = opened.map_err(r2d2::Error::ConnectionError)?;
        let sessions = self.0.sessions();
        if sessions.are_kept() {
            let prepared = conn.batch_execute(&(language::of_kept_session() + &complete_in::prepare()));
            sessions.are_prepared(prepared).map_err(r2d2::Error::QueryError)?;
        }
        Ok(self.0.rotation().opened(conn, generation))
    }

    /// Called before a connection is handed out, even a new one. It is not tested, because that would cost every job a
    /// round trip.
    fn is_valid(&self, pooled: &mut Self::Connection) -> Result<(), r2d2::Error> {
        match pooled.is_new() || self.0.rotation().keeps(pooled, Instant::now()) {
            true => Ok(()),
            false => Err(r2d2::Error::QueryError(DieselError::BrokenTransactionManager)),
        }
    }

    fn has_broken(&self, pooled: &mut Self::Connection) -> bool {
        pooled.used();
        std::thread::panicking() || pooled.is_broken() || !self.0.rotation().keeps(pooled, Instant::now())
    }
}

/// The pool of connections for blocking handlers. It connects when the first job needs a connection. If a connection
/// was closed in the pool, its first statement fails. The first statement is our `BEGIN`, so the handler has not
/// started.
pub(crate) fn blocking_pool(connector: Arc<Connector>, size: usize) -> BlockingPool {
    Pool::builder()
        .max_size(u32::try_from(size).unwrap_or(u32::MAX))
        .min_idle(Some(0))
        .test_on_check_out(true)
        .max_lifetime(Some(connector.rotation().lifetime()))
        // A connection that is used no longer is no error. If none can be opened, `get` returns why.
        .error_handler(Box::new(r2d2::NopErrorHandler))
        .connection_timeout(connector.stopwatch().limit(CHECKOUT_LIMIT))
        .build_unchecked(Manager(connector))
}

pub(super) async fn transact(
    storage: &PgStorage,
    jobs: Arc<[JobContext]>,
    body: BlockingBody,
    abort: CancellationToken,
) -> Transacted {
    let learnt = tokio::select! {
        learnt = storage.connector.sessions().learn(storage) => learnt,
        () = abort.cancelled() => return Transacted::Aborted,
    };
    if let Err(problem) = learnt {
        return Transacted::NotBegun(problem);
    }
    let (pool, begin, connector) = (storage.blocking.clone(), super::begin(storage, &jobs), storage.connector.clone());
    let commit_decision = Arc::new(CommitDecision::default());
    let decision = commit_decision.clone();
    let attempt = move || {
        for _ in 0..connections(pool.max_size() as usize) {
            let mut conn = match pool.get() {
                Ok(conn) => conn,
                Err(error) => return Err(error),
            };
            // The attempt may have been aborted while it waited for a connection.
            if decision.is_aborted() {
                return Ok(Transacted::Aborted);
            }
            let rotation = connector.rotation();
            match run(&mut conn, &begin, connector.sessions(), &jobs, &body, &decision) {
                Err(Rollback::NotBegun(error))
                    if is_closed(&error) || rotation.is_stale(&mut conn, stale::of_statement(&error)) =>
                {
                    conn.abandon();
                }
                ended => {
                    return Ok(transacted(ended, |stale| rotation.is_stale_for(lease_of(&jobs), &mut conn, stale)));
                }
            }
        }
        let problem = "the server closed every connection before a transaction could begin";
        Ok(Transacted::NotBegun(unavailable(std::io::Error::new(std::io::ErrorKind::ConnectionReset, problem))))
    };
    let mut attempt = spawn_handler(attempt);
    let ended = tokio::select! {
        biased;
        ended = &mut attempt => ended,
        () = abort.cancelled() => {
            if commit_decision.settle(CommitDecision::ABORTED) {
                return Transacted::Aborted;
            }
            attempt.await
        }
    };
    match ended {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => Transacted::NotBegun(no_connection(storage, error, &abort).await),
        Err(error) => {
            let problem = StorageError::Unavailable(error.to_string().into());
            match error {
                NoResult::NotRun => Transacted::NotBegun(problem),
                NoResult::Panicked(_) => Transacted::Unknown(problem),
            }
        }
    }
}

/// Why no connection could be opened. libpq passes on no code that says whether the credentials were refused, and
/// servers translate their messages. So the other client tries it, too.
async fn no_connection(storage: &PgStorage, error: PoolError, abort: &CancellationToken) -> StorageError {
    let tried = tokio::select! {
        tried = storage.connector.connect() => tried.err(),
        () = abort.cancelled() => None,
    };
    match tried {
        Some(NotConnected::Credentials(text)) => StorageError::Credentials(text.into()),
        _ => no_blocking_connection(&error),
    }
}

fn run(
    conn: &mut PgConnection,
    begin: &str,
    sessions: &Sessions,
    jobs: &[JobContext],
    body: &BlockingBody,
    commit_decision: &CommitDecision,
) -> Result<Vec<Finish>, Rollback> {
    AnsiTransactionManager::begin_transaction_sql(conn, begin).map_err(Rollback::NotBegun)?;
    let ended = match body(conn).and_then(|transitions| finishes(jobs, transitions)) {
        Ok(finishes) => end(conn, sessions, &finishes, commit_decision).map(|()| finishes),
        Err(error) => Err(Rollback::Handler(error)),
    };
    let Err(mut rollback) = ended else { return ended };
    if may_be_aborted(&rollback) {
        rollback = probed(rollback, conn.batch_execute(PROBE));
    }
    // If the rollback fails, the connection is broken and does not go back to its pool. Diesel learns from libpq that
    // no transaction is open.
    let rolled_back = conn.batch_execute(&super::rollback());
    let (is_rolled_back, is_closed) = (rolled_back.is_ok(), rolled_back.is_err_and(|error| is_closed(&error)));
    let rollback = match rollback {
        Rollback::Handler(error) if is_closed => Rollback::Handler(error.noted(CLOSED)),
        rollback => rollback,
    };
    Err(rollback.after(is_rolled_back, is_closed))
}

/// Finishes the jobs and commits, unless an abort has decided meanwhile that nothing is committed.
fn end(
    conn: &mut PgConnection,
    sessions: &Sessions,
    finishes: &[Finish],
    commit_decision: &CommitDecision,
) -> Result<(), Rollback> {
    let status = AnsiTransactionManager::transaction_manager_status_mut(conn);
    is_outermost(status.transaction_depth())?;
    crash_point("blocking-transaction-finish");
    let outputs = StoreOutputsQuery::for_batch(finishes);
    if !outputs.is_empty() {
        conn.batch_execute(UNLIMITED).map_err(|error| refused(sessions, error))?;
    }
    for store in outputs {
        store.execute(conn).map_err(|error| refused(sessions, error))?;
    }
    let message = message(sessions, finishes);
    let in_one_message = message.is_some();
    if !in_one_message {
        conn.batch_execute(&format!("{UNLIMITED}; {BY_INDEX}")).map_err(|error| refused(sessions, error))?;
        if !finish_in(conn, finishes).map_err(Rollback::Database)? {
            return Err(Rollback::LeaseLost);
        }
        crash_point("blocking-transaction-commit");
    }
    if !commit_decision.settle(CommitDecision::COMMITS) {
        return Err(Rollback::Aborted);
    }
    if in_one_message {
        crash_soon("blocking-transaction-commit");
    }
    // Diesel learns from libpq that the transaction has ended.
    conn.batch_execute(&message.unwrap_or_else(commit)).map_err(|error| refused(sessions, error))
}

/// As `finish_batch::finish_in`, on a connection of libpq.
fn finish_in(conn: &mut PgConnection, finishes: &[Finish]) -> QueryResult<bool> {
    let query = FinishQuery::new(finishes);
    let moved: Vec<i64> = match Inside::of(finishes) {
        Inside::Plain => query.get_result(conn)?,
        Inside::Limited => LimitedQuery(query).get_result(conn)?,
        Inside::Everything => EverythingQuery(query).get_result(conn)?,
    };
    Ok(moved.len() == finishes.len())
}
