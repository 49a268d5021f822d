//! What people need of a database, beside the worker.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StorageResult;
use crate::job::JobId;
use crate::record::{AttemptError, DeadLetters, JobRecord, KindStats, WorkerRecord};
use crate::state::JobState;

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
    /// The job is in a state the command does not apply to.
    Refused(JobState),
    /// The job uses a feature of a later version, whose program has to be asked.
    Newer,
}

/// What people and the command line need of a database, beside the worker.
#[async_trait]
pub trait Operator: Send + Sync + 'static {
    /// Jobs that match, newest first.
    async fn list(&self, filter: &JobFilter) -> StorageResult<Vec<JobRecord>>;

    /// Those of these jobs that exist, each once and in this order, with their failures, oldest first.
    async fn show_many(&self, ids: &[JobId]) -> StorageResult<Vec<(JobRecord, Vec<AttemptError>)>>;

    /// Makes cancelled, discarded, scheduled or retrying jobs available now, with at least one attempt left. A running or
    /// completed job is refused. Answers for each, in this order; of jobs that are named twice, twice the same.
    async fn retry_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>>;

    /// Ends waiting or running jobs as cancelled. The attempt of a running one loses its lease. Answers for each, in this order;
    /// of jobs that are named twice, twice the same.
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

    /// How many jobs stand where.
    async fn stats(&self) -> StorageResult<Vec<KindStats>>;

    /// Rows that the database refused to move on. A storage that never refuses one has none.
    async fn dead_letters(&self) -> StorageResult<DeadLetters>;

    /// The worker processes.
    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>>;

    /// Has no worker claim anything from now on, until [`thaw`](Self::thaw). `false`: it was frozen already, and what was said then
    /// still stands.
    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool>;

    /// Ends a freeze and wakes the workers. `false`: there was none.
    async fn thaw(&self) -> StorageResult<bool>;

    /// Names the environment that the database belongs to, or takes the name away.
    async fn set_environment(&self, environment: Option<&str>) -> StorageResult<()>;

    /// Ends waiting and running jobs that were enqueued before this time as cancelled, at most `limit` of each; returns how many.
    /// It waits for locked rows, so that none is left when it returns 0, except those of a later version's features.
    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize) -> StorageResult<usize>;

    /// Has all schedules go on from now: what they missed is not caught up with.
    async fn forget_missed_ticks(&self) -> StorageResult<()>;
}
