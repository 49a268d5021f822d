//! What people need from a database, in addition to what the worker needs.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::history::History;
use super::{RuntimeSettings, StorageResult};
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::progress::Progress;
use crate::record::{AttemptError, DeadLetters, JobEnd, JobRecord, WorkerRecord};
use crate::state::JobState;
use crate::storage_error::StorageError;

/// Which jobs an operator asks for.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only this state.
    pub state: Option<JobState>,
    /// Only this queue.
    pub queue: Option<String>,
    /// Only this kind.
    pub kind: Option<String>,
    /// At most this many, newest first.
    pub limit: usize,
}

/// What an operator's command did to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operated {
    /// The job was moved.
    Done,
    /// No such job.
    NotFound,
    /// The job is in a state to which the command does not apply.
    Refused(JobState),
    /// The job uses a feature of a later version. The command must be given to that version's program.
    Newer,
}

/// Why a job was cancelled by its id.
pub const CANCELLED: &str = "cancelled by an operator";
/// Why a job was cancelled together with all others.
pub const CANCELLED_WITH_ALL: &str = "cancelled by an operator, with all others";

/// What people and the command line need from a database, in addition to what the worker needs.
#[async_trait]
pub trait Operator: RuntimeSettings + History {
    /// Jobs that match, newest first.
    async fn list(&self, filter: &JobFilter) -> StorageResult<Vec<JobRecord>>;

    /// Those of these jobs that exist, each once and in this order. Each comes with its failures, oldest first.
    async fn show_many(&self, ids: &[JobId]) -> StorageResult<Vec<(JobRecord, Vec<AttemptError>)>>;

    /// How far a job is, and what it left if it has ended. `None` if there is no such job.
    async fn end(&self, id: JobId) -> StorageResult<Option<JobEnd>>;

    /// What the handler of a job has reported last, in any of its attempts. `None` if it has reported nothing.
    async fn progress(&self, id: JobId) -> StorageResult<Option<Progress>>;

    /// Makes cancelled, discarded, scheduled or retrying jobs available now, with at least one attempt left. Refuses
    /// running and completed jobs. Returns a result for each id, in this order. An id that is given twice gets the same
    /// result twice.
    async fn retry_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>>;

    /// Cancels waiting or running jobs. The attempt of a running job loses its lease. Returns a result for each id, in
    /// this order. An id that is given twice gets the same result twice.
    async fn cancel_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>>;

    /// [`show_many`](Self::show_many) for one job.
    async fn show(&self, id: JobId) -> StorageResult<Option<(JobRecord, Vec<AttemptError>)>> {
        Ok(self.show_many(&[id]).await?.pop())
    }

    /// [`retry_many`](Self::retry_many) for one job.
    async fn retry(&self, id: JobId) -> StorageResult<Operated> {
        Ok(self.retry_many(&[id]).await?.pop().unwrap_or(Operated::NotFound))
    }

    /// [`cancel_many`](Self::cancel_many) for one job.
    async fn cancel(&self, id: JobId) -> StorageResult<Operated> {
        Ok(self.cancel_many(&[id]).await?.pop().unwrap_or(Operated::NotFound))
    }

    /// Rows that the database refused to move, and that were set apart. A storage that never refuses a row returns
    /// none.
    async fn dead_letters(&self) -> StorageResult<DeadLetters>;

    /// The worker processes.
    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>>;

    /// Stops all claims of all workers from now on, until [`thaw`](Self::thaw). Returns `false` if the database was
    /// frozen already; then the earlier `by` and `reason` stay.
    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool>;

    /// Ends a freeze and wakes the workers. Returns `false` if there was none.
    async fn thaw(&self) -> StorageResult<bool>;

    /// Sets the name of the environment that the database belongs to. `None` removes the name.
    async fn set_environment(&self, environment: Option<&str>) -> StorageResult<()>;

    /// Cancels waiting and running jobs that were enqueued before this time, at most `limit` of each. Returns how many.
    /// It waits for locked rows. So when it returns 0 no such job is left, except jobs that use features of a later
    /// version.
    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize) -> StorageResult<usize>;

    /// Moves the waiting jobs of these queues and kinds to an earlier time, all by the same span, so that the first of them is due
    /// now. Returns the span, which is zero if one is due already or none waits. For [`skip_time`](Self::skip_time).
    async fn bring_forward(&self, queues: &[String], kinds: &[String]) -> StorageResult<Duration>;

    /// [`bring_forward`](Self::bring_forward) for a worker that skips time. Refuses it while another worker is alive, because that
    /// one's jobs would run too early.
    async fn skip_time(&self, worker: WorkerId, queues: &[String], kinds: &[String]) -> StorageResult<Duration> {
        match self.workers().await?.into_iter().find(|other| other.alive && other.id != worker) {
            Some(WorkerRecord { host, pid, .. }) => Err(StorageError::Config(format!(
                "time cannot be skipped: a worker on {host} (process {pid}) serves this database, and its jobs would run too early; give \
                 the test a database of its own, such as a `TestDatabase`"
            ))),
            None => self.bring_forward(queues, kinds).await,
        }
    }

    /// Makes all schedules go on from now. Missed ticks are not enqueued later.
    async fn forget_missed_ticks(&self) -> StorageResult<()>;
}
