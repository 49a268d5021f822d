//! The jobs that a connection sees waiting.

use chrono::{DateTime, Utc};
use diesel_jobs_core::{JobId, JobRecord};

/// Which of the waiting jobs are read. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug)]
pub enum Among {
    /// All.
    All,
    /// Those with a higher id than the first id, and the job with the second id.
    NewerThan(JobId, JobId),
}

impl Among {
    /// The id above which jobs are read, and the id of one more job.
    pub(crate) fn ids(self) -> (i64, i64) {
        match self {
            Self::All => (i64::MIN, i64::MIN),
            Self::NewerThan(newest, other) => (newest.0, other.0),
        }
    }
}

/// The jobs that wait in a database.
#[derive(Default)]
pub struct Waiting {
    /// The jobs that no worker has claimed, in the order in which a worker would claim them if all were due: by
    /// priority, then by time, then by id.
    pub jobs: Vec<JobRecord>,
    /// The current time of the database, rather than that of the start of the transaction.
    pub now: DateTime<Utc>,
}

impl std::fmt::Debug for Waiting {
    // Arguments may be secrets, so the jobs are only counted.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} waiting jobs at {}", self.jobs.len(), self.now)
    }
}
