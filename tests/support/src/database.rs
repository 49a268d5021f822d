//! A database for one test. It is dropped with this value, and kept if the test panics.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, SqliteConnection};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::enqueue::IntoNewJob;
use diesel_jobs::operator::{AttemptError, JobRecord};
use diesel_jobs::store::Storage;
use diesel_jobs::worker::{Registry, WorkerStats};
use diesel_jobs::{Database, JobId, JobState, Worker, WorkerBuilder};
use diesel_jobs_storage::Stopwatch;
use tempfile::TempDir;

use crate::{Conn, postgres, until};

/// The application's own table: the effects of its jobs.
pub(crate) const APPLICATION: &str = "create table effect (job bigint, name text not null)";

/// The number of connections for transactional handlers.
const HANDLERS: usize = 8;

/// One database.
#[allow(missing_debug_implementations)]
pub struct Db {
    url: String,
    home: Home,
    database: Database,
}

enum Home {
    Postgres { name: String },
    Sqlite { dir: Option<TempDir> },
}

impl Db {
    /// On PostgreSQL, with the schema.
    pub async fn postgres() -> Self {
        Self::on_postgres(postgres::create().await).await
    }

    /// On PostgreSQL, without a schema.
    pub async fn empty_postgres() -> Self {
        Self::on_postgres(postgres::create_empty().await).await
    }

    /// On SQLite, with the schema.
    pub async fn sqlite() -> Self {
        let db = Self::empty_sqlite().await;
        db.database.migrator.up().await.unwrap();
        db.execute(APPLICATION).await;
        db
    }

    /// On SQLite, without a schema.
    pub async fn empty_sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/jobs.db", dir.path().display());
        let database = Database::open(&url, HANDLERS).await.unwrap();
        Self { url, home: Home::Sqlite { dir: Some(dir) }, database }
    }

    async fn on_postgres(name: String) -> Self {
        let url = postgres::server_url_of(&name);
        let database = Database::open(&url, HANDLERS).await.unwrap();
        Self { url, home: Home::Postgres { name }, database }
    }

    /// The URL at which other programs reach it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        matches!(self.home, Home::Postgres { .. })
    }

    /// The storage for a worker in this process.
    pub fn storage(&self) -> Arc<dyn Storage> {
        self.database.storage.clone()
    }

    /// A storage whose claims find the same on every machine: none of its statements counts as slow.
    pub async fn storage_without_stopwatch(&self) -> Arc<dyn Storage> {
        Database::open_with(&self.url, HANDLERS, Stopwatch::StandsStill).await.unwrap().storage
    }

    /// The opened database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Opens the database again, as another process does.
    pub async fn again(&self) -> Database {
        Database::open(&self.url, HANDLERS).await.unwrap()
    }

    /// Opens the database again as another role of the server, for the workers. The test's own statements keep the
    /// tests' role.
    pub async fn open_as(&mut self, role: &str) {
        let (_, place) = self.url.split_once('@').expect("the tests' URL names its role");
        self.database = Database::open(&format!("postgres://{role}@{place}"), HANDLERS).await.unwrap();
    }

    /// Returns a builder of a worker in this process, with these jobs and a short poll interval.
    pub fn worker(&self, registry: Registry) -> WorkerBuilder {
        Worker::builder(self.storage()).registry(registry).poll_interval(Duration::from_millis(50))
    }

    /// Runs these jobs until none is left.
    pub async fn work(&self, registry: Registry) -> WorkerStats {
        let worker = self.worker(registry).build().unwrap();
        crate::within(crate::LIMIT * 2, "the worker to run dry", worker.run_until_empty()).await.unwrap()
    }

    /// Opens a connection, as an application does.
    pub async fn conn(&self) -> Conn {
        match &self.home {
            Home::Postgres { .. } => Conn::Postgres(Box::new(AsyncPgConnection::establish(&self.url).await.unwrap())),
            Home::Sqlite { .. } => {
                let path = self.url.strip_prefix("sqlite://").expect("a SQLite URL");
                let mut conn = SqliteConnection::establish(path).unwrap();
                conn.batch_execute("pragma busy_timeout = 10000").unwrap();
                Conn::Sqlite(Box::new(conn))
            }
        }
    }

    /// See [`Conn::execute`].
    pub async fn execute(&self, sql: &str) {
        self.conn().await.execute(sql).await;
    }

    /// See [`Conn::number`].
    pub async fn number(&self, sql: &str) -> i64 {
        self.conn().await.number(sql).await
    }

    /// See [`Conn::enqueue`].
    pub async fn enqueue(&self, job: impl IntoNewJob) -> JobId {
        self.conn().await.enqueue(job).await
    }

    /// Returns the number of effects with this name.
    pub async fn effects(&self, name: &str) -> i64 {
        self.number(&format!("select count(*) as number from effect where name = '{name}'")).await
    }

    /// Returns a job, which must exist, and its failures.
    pub async fn show(&self, id: JobId) -> (JobRecord, Vec<AttemptError>) {
        self.database.operator.show(id).await.unwrap().unwrap_or_else(|| panic!("job {id} is gone"))
    }

    /// Returns a job, which must exist.
    pub async fn record(&self, id: JobId) -> JobRecord {
        self.show(id).await.0
    }

    /// Returns those of these jobs that were claimed once, in the same order. Only for them is the order known: a
    /// worker that was held up gives back what it has prefetched, and those jobs may run later.
    pub async fn claimed_once(&self, ids: &[JobId]) -> Vec<JobId> {
        let again = self.conn().await.texts("select cast(id as text) as text from jobs.job where lease > 1").await;
        ids.iter().copied().filter(|id| !again.contains(&id.to_string())).collect()
    }

    /// Returns the failures of a job, which must exist.
    pub async fn failures(&self, id: JobId) -> Vec<AttemptError> {
        self.show(id).await.1
    }

    /// Makes the last heartbeat of the worker of this process an hour old. So nobody waits for the end of a dead
    /// worker's lease.
    pub async fn age_worker(&self, pid: u32) {
        let hour = if self.is_postgres() { "interval '1 hour'" } else { "3600000000" };
        self.execute(&format!("update jobs.worker set heartbeat_at = heartbeat_at - {hour} where pid = {pid}")).await;
    }

    /// Waits until a job is in this state. Returns the job.
    pub async fn await_state(&self, id: JobId, state: JobState) -> JobRecord {
        until(&format!("job {id} to be {state}"), async || {
            let record = self.record(id).await;
            (record.state == state).then_some(record)
        })
        .await
    }

    /// Waits until a query's `number` is this.
    pub async fn await_number(&self, expected: i64, sql: &str) {
        let mut conn = self.conn().await;
        crate::within(crate::LIMIT, sql, async {
            while conn.number(sql).await != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let keep = thread::panicking();
        match &mut self.home {
            Home::Sqlite { dir } => {
                if let Some(dir) = dir.take().filter(|_| keep) {
                    eprintln!("the database of this test is kept: {}", dir.keep().display());
                }
            }
            Home::Postgres { name } if keep => eprintln!("the database of this test is kept: {name}"),
            Home::Postgres { name } => {
                let drop_it = format!("drop database {name} with (force)");
                // This uses a thread of its own, because this thread may be inside a runtime, which must not be
                // blocked.
                let done = thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(postgres::admin(&drop_it));
                });
                if done.join().is_err() {
                    eprintln!("the database {name} could not be dropped");
                }
            }
        }
    }
}
