//! PostgreSQL: the production store.

mod act;
mod advisory;
pub(crate) mod bench;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod by_id_tests;
mod cause;
mod claims;
pub(crate) mod connect;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod cost_tests;
mod declare;
mod doctor;
mod drift;
mod end_waiting;
mod ended;
mod enqueue_connection;
mod finish;
mod flow_control;
mod heartbeat_connection;
mod history;
mod hosts;
mod insert_chunk;
mod insert_each;
mod interrupt;
mod keepalive_of_url;
mod lag;
mod language;
mod levels;
#[cfg(feature = "postgres-sync")]
mod libpq;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod limit_tests;
mod listeners;
mod load;
pub(crate) mod many_queues;
pub(crate) mod migrate;
mod native;
mod not_connected;
mod notify;
mod operation;
mod operator;
mod outage;
mod patience;
mod pipelined;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod pool_tests;
mod pools;
pub(crate) mod queries;
mod refused;
mod renamed;
mod rescue;
mod rotation;
mod runtime_settings;
pub(crate) mod schema;
mod server_message;
mod sessions;
mod settings;
mod slow_queries;
mod source;
mod stale;
mod storage;
mod suspicions;
mod target;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod test_claims;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;
mod tls;
mod transact;
mod unchanged;
mod url;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{StorageError, WorkerId};

use crate::credentials::AskCredentials;
use crate::database::Database;
use crate::stopwatch::Stopwatch;
use crate::url_source::UrlSource;
use connect::Connector;
use lag::LONGEST_LAG;
use levels::Levels;
use listeners::Listeners;
use outage::Outage;
use patience::Patience;
use pools::{Object, Pool, no_connection, pool};
use source::Source;

/// Connections for claims, finishes and maintenance. Handlers use other connections, so that they cannot starve these.
const OWN_CONNECTIONS: usize = 4;

/// How long one of the worker's own statements may take before its connection is given up.
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// When the server itself cancels such a statement, which is before its worker gives it up. If the server carried out a
/// claim after that, its jobs would have no owner until the reconciler finds them.
const SERVER_LIMIT: Duration = Duration::from_secs(9);

/// How long to wait for a free connection.
const CHECKOUT_LIMIT: Duration = Duration::from_secs(10);

/// The storage of one worker process.
#[derive(Clone)]
pub(crate) struct PgStorage {
    /// Connects as the URL says, for handlers.
    connector: Arc<Connector>,
    /// Connects for the worker's own statements.
    own_connector: Arc<Connector>,
    /// Connections for claims, finishes and maintenance.
    own: Pool,
    /// Connections for transactional handlers, and for the rows of other handlers.
    handlers: Pool,
    /// The levels of each worker on this storage.
    levels: Arc<Mutex<HashMap<WorkerId, Levels>>>,
    outage: Arc<Outage>,
    /// The connections on which workers of this process listen.
    listeners: Arc<Listeners>,
    /// The job up to which outputs without a job were deleted. After the last output it starts again.
    forgotten: Arc<AtomicI64>,
    /// The last pass of admission has failed as a whole, so the next one handles the keys one by one.
    admission_failed: Arc<AtomicBool>,
    /// How long declarations and ticks wait for locks.
    patience: Arc<Patience>,
    #[cfg(feature = "postgres-sync")]
    blocking: transact::BlockingPool,
}

/// Opens the database behind a `postgres://` URL.
pub(crate) fn open(
    url: UrlSource,
    credentials: Option<AskCredentials>,
    handlers: usize,
    max_lifetime: Option<Duration>,
    stopwatch: Stopwatch,
) -> StorageResult<Database> {
    let connector = Connector::new(Source::new(url, credentials)?).timed_by(stopwatch);
    let connector = match max_lifetime {
        Some(lifetime) => connector.living_for(lifetime),
        None => connector,
    };
    let storage = Arc::new(PgStorage::on(connector, handlers)?);
    Ok(Database { storage: storage.clone(), operator: storage.clone(), migrator: storage })
}

fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> StorageError {
    StorageError::Unavailable(Box::new(error))
}

/// One of the worker's own statements got no answer in time.
fn no_answer(operation: &str) -> StorageError {
    let problem = format!(
        "{operation} got no answer within {} s; check that the server is up and not overloaded, and check the network between",
        STATEMENT_LIMIT.as_secs()
    );
    unavailable(std::io::Error::new(std::io::ErrorKind::TimedOut, problem))
}

impl PgStorage {
    #[cfg(test)]
    fn new(url: &str, handlers: usize, stopwatch: Stopwatch) -> StorageResult<Self> {
        Self::on(Connector::from_url(url)?.timed_by(stopwatch), handlers)
    }

    fn on(connector: Connector, handlers: usize) -> StorageResult<Self> {
        let connector = Arc::new(connector);
        let own_connector = Arc::new(connector.own(connector.stopwatch().limit(SERVER_LIMIT)));
        Ok(Self {
            own: pool(own_connector.clone(), OWN_CONNECTIONS)?,
            // Handlers run the application's statements, so the planner keeps the server's settings.
            handlers: pool(connector.clone(), handlers.max(1))?,
            levels: Arc::default(),
            outage: Arc::default(),
            listeners: Arc::default(),
            forgotten: Arc::new(AtomicI64::new(i64::MIN)),
            admission_failed: Arc::default(),
            patience: Arc::default(),
            #[cfg(feature = "postgres-sync")]
            blocking: transact::blocking_pool(connector.clone(), handlers.max(1)),
            own_connector,
            connector,
        })
    }

    /// Reads or changes what this worker knows about its levels.
    fn levels<T>(&self, worker: WorkerId, work: impl FnOnce(&mut Levels) -> T) -> T {
        // Levels only save work, so it does no harm if a panic left them half changed.
        let (mut all, now) = (self.levels.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if !all.contains_key(&worker) {
            // A worker that was declared dead has a new id since then, so its old levels are no longer used.
            all.retain(|_, levels| levels.are_used(now));
        }
        let levels = all.entry(worker).or_insert_with(|| Levels::new(self.stopwatch().limit(LONGEST_LAG), now));
        levels.touch(now);
        work(levels)
    }

    fn stopwatch(&self) -> Stopwatch {
        self.connector.stopwatch()
    }

    fn forget_levels(&self, worker: WorkerId) {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker);
    }

    /// Sets the lease of a worker that registers. From now on a dead connection is noticed within the lease.
    fn tell_lease(&self, lease: Duration) {
        if self.connector.set_lease(lease) {
            // The open connections were set up for another lease. No handler has run yet.
            self.own.retain(|_, _| false);
        }
    }

    async fn connection(&self) -> StorageResult<Object> {
        self.sweep();
        self.own.get().await.map_err(no_connection).inspect_err(|_| self.outage.begin())
    }

    /// Ends an operation and returns its answer. A connection without an answer in time is closed, not given back to
    /// the pool, because it may still be busy with the statement.
    fn settle<T>(
        &self,
        operation: &'static str,
        mut conn: Object,
        answer: Result<diesel::QueryResult<T>, tokio::time::error::Elapsed>,
    ) -> StorageResult<T> {
        let answer = match answer {
            Ok(answer) => answer.map_err(|error| {
                // Whoever needs the answer asks again, and the next connection is another one.
                let _ = self.connector.rotation().is_stale(&mut conn, stale::of_statement(&error));
                crate::error::storage_error(server_message::added_to(error, &mut conn))
            }),
            Err(_) => {
                drop(Object::take(conn));
                Err(no_answer(operation))
            }
        };
        answer.inspect_err(|problem| {
            if problem.is_transient() {
                self.outage.begin();
            }
        })
    }
}

/// Runs one operation on one of the worker's own connections, within the time limit. This is a macro because closures
/// that return futures cannot yet borrow both the connection and the operation's arguments and stay `Send`.
macro_rules! run {
    ($storage:expr, $operation:literal, $conn:ident => $work:expr) => {{
        let mut pooled = $storage.connection().await?;
        let answer = {
            let $conn: &mut diesel_async::AsyncPgConnection = &mut pooled;
            let is_explicit = $storage.own_connector.explicit().holds();
            let work = async {
                if !is_explicit {
                    let answer = $work.await;
                    return $crate::pg::ended::told(answer, $conn).await;
                }
                $crate::pg::settings::begin($conn, $storage.stopwatch().limit($crate::pg::SERVER_LIMIT)).await?;
                let answer = $work.await;
                let answer = $crate::pg::settings::end($conn, answer).await;
                $crate::pg::ended::told(answer, $conn).await
            };
            tokio::time::timeout($storage.stopwatch().limit($crate::pg::STATEMENT_LIMIT), work).await
        };
        $storage.settle($operation, pooled, answer)
    }};
}

use run;
