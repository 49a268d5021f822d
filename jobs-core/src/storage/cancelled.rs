//! A job that was cancelled while it ran.

use crate::job_id::JobId;

/// A cancelled job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// The job.
    pub job: JobId,
    /// The operator. `None` if the command did not say it.
    pub by: Option<String>,
}
