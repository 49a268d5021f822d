//! The jobs that a connection sees waiting.

use chrono::{DateTime, Utc};
use diesel_jobs_core::JobRecord;

/// The jobs that wait in a database.
#[derive(Default)]
pub struct Waiting {
    /// Those that no worker has claimed, in the order in which one worker would claim them if all were due: by priority,
    /// then by time, then by id.
    pub jobs: Vec<JobRecord>,
    /// The database's time. Inside a transaction it goes on, too.
    pub now: DateTime<Utc>,
}

impl std::fmt::Debug for Waiting {
    // Arguments may be secrets, so the jobs are only counted.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} waiting jobs at {}", self.jobs.len(), self.now)
    }
}
