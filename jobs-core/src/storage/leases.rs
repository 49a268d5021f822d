//! The leases of a worker as the database knows them.

use crate::job_id::JobId;

/// The result of [`leases`](super::Storage::leases).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// The valid leases: job and lease number.
    pub valid: Vec<(JobId, i32)>,
    /// The jobs among those asked for that were cancelled while they ran.
    pub cancelled: Vec<Cancelled>,
}

/// A job that was cancelled while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// The job.
    pub job: JobId,
    /// The operator. `None` if the command did not say it.
    pub by: Option<String>,
}
