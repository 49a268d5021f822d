//! What a worker and the command line need from a database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::storage::{Operator, Storage};
use diesel_jobs_core::{JobEnd, JobId, WaitError, wait};

use crate::migrations::Migrator;

/// An open database: the operations of workers and of operators, and the migrations of the schema.
#[derive(Clone)]
pub struct Database {
    /// The operations of workers.
    pub storage: Arc<dyn Storage>,
    /// The operations of operators.
    pub operator: Arc<dyn Operator>,
    /// The migrations of the schema.
    pub migrator: Arc<dyn Migrator>,
}

impl Database {
    /// Waits until a job has ended, whichever process runs it. See [`WaitError`] for the other ends of the wait.
    ///
    /// The database is asked after 100 ms, then more and more rarely, at least every second. While it cannot be
    /// reached, it is asked again until the time is over. A job with `retain = "none"` leaves nothing when it
    /// completes: then there is no such job any more.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn wait(id: diesel_jobs_core::JobId) -> Result<(), Box<dyn std::error::Error>> {
    /// let database = diesel_jobs_storage::Database::open("sqlite://app.db", 0).await?;
    /// let end = database.wait(id, Duration::from_secs(30)).await?;
    /// println!("{}", end.state);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, id: JobId, timeout: Duration) -> Result<JobEnd, WaitError> {
        wait(&*self.operator, id, timeout).await
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.storage.name()).finish_non_exhaustive()
    }
}
