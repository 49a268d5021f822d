//! `wait`: waits until a job has ended, whichever process runs it.

use std::time::Duration;

use tokio::time::Instant;

use crate::job_id::JobId;
use crate::record::JobEnd;
use crate::state::JobState;
use crate::storage::Operator;
use crate::storage_error::StorageError;

/// The pause after the first poll. Each pause is longer than the one before it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a wait ended before the job did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// There is no such job.
    #[error("there is no job {0}: it was pruned or is not kept after its end, or its transaction has not committed")]
    NoJob(JobId),
    /// The job did not end within the given time.
    #[error("job {id} is {state} after {timeout:?}")]
    TimedOut {
        /// The job.
        id: JobId,
        /// Its state at the end of the wait.
        state: JobState,
        /// How long the wait lasted.
        timeout: Duration,
    },
    /// The database failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Waits until the job has ended, which means that it is completed, cancelled or discarded. It does not matter which
/// process runs the job. This function polls the database: at once, again after 100 ms, and then at growing intervals
/// of up to one second. While the database cannot be reached, it continues to poll until `timeout` is over.
///
/// The row of a job with `retain = "none"` is deleted when the job completes, so the wait then ends with
/// [`WaitError::NoJob`].
pub async fn wait(operator: &dyn Operator, id: impl Into<JobId>, timeout: Duration) -> Result<JobEnd, WaitError> {
    let (id, start) = (id.into(), Instant::now());
    let mut pause = FIRST_PAUSE;
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let problem = match operator.end(id).await {
            Ok(Some(end)) if end.state.is_finished() => return Ok(end),
            Ok(Some(JobEnd { state, .. })) => WaitError::TimedOut { id, state, timeout },
            Ok(None) => return Err(WaitError::NoJob(id)),
            Err(problem) if problem.is_transient() => problem.into(),
            Err(problem) => return Err(problem.into()),
        };
        if left.is_zero() {
            return Err(problem);
        }
        tokio::time::sleep(pause.min(left)).await;
        pause = pause.mul_f64(1.5).min(LONGEST_PAUSE);
    }
}
