//! The traits that each database implements for the load test, and their types.

use std::time::Duration;

use async_trait::async_trait;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{NewJob, StorageError};

/// The name of the schema on PostgreSQL. On SQLite, the directory's name ends with it.
pub const SCHEMA: &str = "jobs_bench";

/// The version, the settings and the limits of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Name and version.
    pub name: String,
    /// Settings that affect its speed, as `name value`.
    pub settings: Vec<String>,
    /// How many more connections it accepts. `None` if there is no such limit.
    pub free_connections: Option<usize>,
    /// The PID of one process of the server, on the server's machine. `None` if there is no server process.
    pub process: Option<u32>,
    /// Whether only one connection can write at a time.
    pub one_writer: bool,
}

/// The activity of others on the database's server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Others {
    /// The average number of active sessions. On SQLite, 1 if the user's file was written, else 0.
    pub active: f64,
    /// The application names of these sessions.
    pub programs: Vec<String>,
    /// Transactions per second.
    pub transactions: f64,
}

/// How long the database makes one connection wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The time of a statement that does nothing.
    pub round_trip: Duration,
    /// The time of a statement that inserts and commits one row.
    pub commit: Duration,
}

impl Waits {
    /// Returns the median of each list. The median of an empty list is 0.
    pub fn medians(answers: Vec<Duration>, commits: Vec<Duration>) -> Self {
        let median = |mut spans: Vec<Duration>| {
            spans.sort_unstable();
            spans.get(spans.len() / 2).copied().unwrap_or_default()
        };
        Self { round_trip: median(answers), commit: median(commits) }
    }
}

/// Why [`LoadTestDatabase::prepare`] failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The load test must not use the place, or a privilege is missing. The text contains what to do.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

diesel_jobs_core::debug_as_display!(PlaceError);

/// A connection that enqueues in the same way as an application.
#[async_trait]
pub trait Producer: Send {
    /// Enqueues one job in a transaction of its own.
    async fn enqueue(&mut self, job: NewJob) -> StorageResult<()>;

    /// Enqueues many jobs in one transaction.
    async fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> StorageResult<()>;
}

/// A database under test.
#[async_trait]
pub trait LoadTestDatabase: Send + Sync {
    /// Returns the name of the place that [`prepare`](Self::prepare) makes, for messages.
    fn place(&self) -> String;

    /// Returns the version, the settings and the limits of the database.
    async fn server(&self) -> StorageResult<Server>;

    /// Returns the activity of others, measured for `span`.
    async fn others(&self, span: Duration) -> StorageResult<Others>;

    /// Makes the place. Replaces a place that an earlier run has left. Fails if `worker bench` did not make the
    /// existing place of this name, or if another run uses it.
    async fn prepare(&self) -> Result<(), PlaceError>;

    /// Measures for about `span`, in the place that [`prepare`](Self::prepare) has made.
    async fn waits(&self, span: Duration) -> StorageResult<Waits>;

    /// Deletes all jobs and workers in the place.
    async fn empty(&self) -> StorageResult<()>;

    /// Opens a connection that enqueues.
    async fn producer(&self) -> StorageResult<Box<dyn Producer>>;

    /// Returns how many connections the load test has open. `None` if the database does not count them.
    async fn connections(&self) -> StorageResult<Option<usize>>;

    /// Removes the place if [`prepare`](Self::prepare) began to make it. Can be called after a failure at any step.
    async fn clear(&self) -> StorageResult<()>;
}
