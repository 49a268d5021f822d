//! What the load test asks of each database.

use std::time::Duration;

use async_trait::async_trait;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{NewJob, StorageError};

/// The schema on PostgreSQL, and the end of the directory's name on SQLite.
pub const SCHEMA: &str = "jobs_bench";

/// What the database says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Name and version.
    pub name: String,
    /// Settings that decide how fast it is, as `name value`.
    pub settings: Vec<String>,
    /// How many more connections it would take; `None` where there is no such limit.
    pub free_connections: Option<usize>,
    /// A process of the server, by the number it has on the server's machine.
    pub process: Option<u32>,
    /// Whether all who write wait for each other.
    pub one_writer: bool,
}

/// What somebody else does there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Others {
    /// Sessions at work, on average.
    pub active: f64,
    /// The programs they say they are.
    pub programs: Vec<String>,
    /// Transactions per second.
    pub transactions: f64,
}

/// How long the database makes one connection wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For an answer that needs no work.
    pub round_trip: Duration,
    /// For a commit of one row.
    pub commit: Duration,
}

impl Waits {
    /// What was usual.
    pub fn medians(answers: Vec<Duration>, commits: Vec<Duration>) -> Self {
        let median = |mut spans: Vec<Duration>| {
            spans.sort_unstable();
            spans.get(spans.len() / 2).copied().unwrap_or_default()
        };
        Self { round_trip: median(answers), commit: median(commits) }
    }
}

/// Why the place was not made.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Something is there that must not be touched, or a right is missing; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

diesel_jobs_core::debug_as_display!(PlaceError);

/// A connection that enqueues as an application's does.
#[async_trait]
pub trait Producer: Send {
    /// Enqueues one job in a transaction of its own.
    async fn enqueue(&mut self, job: NewJob) -> StorageResult<()>;

    /// Enqueues many jobs in one transaction.
    async fn enqueue_all(&mut self, jobs: Vec<NewJob>) -> StorageResult<()>;
}

/// A database under test.
#[async_trait]
pub trait Ground: Send + Sync {
    /// The name of the place that [`prepare`](Self::prepare) makes.
    fn place(&self) -> String;

    /// What the database says of itself.
    async fn server(&self) -> StorageResult<Server>;

    /// Watches for this long what others do.
    async fn others(&self, span: Duration) -> StorageResult<Others>;

    /// Makes the place, in the stead of one that an earlier run had to leave behind. A place of the same name that is
    /// not ours is refused, and so is a second run at the same time.
    async fn prepare(&self) -> Result<(), PlaceError>;

    /// Measures for about this long, in the place that was made.
    async fn waits(&self, span: Duration) -> StorageResult<Waits>;

    /// Forgets all jobs and workers.
    async fn empty(&self) -> StorageResult<()>;

    /// Opens a connection to enqueue through.
    async fn producer(&self) -> StorageResult<Box<dyn Producer>>;

    /// How many connections the place's users have open; `None` where nobody counts them.
    async fn connections(&self) -> StorageResult<Option<usize>>;

    /// Removes the place, if `prepare` got as far as making it. Also after a run that broke off anywhere.
    async fn clear(&self) -> StorageResult<()>;
}
