//! An open database, as workers and the command line use it.

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
    /// Waits until a job has ended, which means that it is completed, cancelled or discarded. It does not matter which
    /// process runs the job.
    ///
    /// This function polls the database: at once, again after 100 ms, and then at growing intervals of up to one
    /// second. While the database cannot be reached, it continues to poll until `timeout` is over.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`] if the job has not ended within `timeout`. [`WaitError::NoJob`] if there is no such job:
    /// the row of a job with `retain = "none"` is deleted when the job completes. [`WaitError::Storage`] if the
    /// database fails.
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
