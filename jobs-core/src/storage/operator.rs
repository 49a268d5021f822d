//! The operations of a database for operators, in addition to those for workers.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::action::{Action, Operated};
use super::audit::{AuditRecord, UNNAMED_OPERATOR};
use super::failures::Failures;
use super::filter::JobFilter;
use super::history::History;
use super::operations::{OperationId, OperationRecord, Operations};
use super::page::{Count, MAX_PAGE, Page, Paging};
use super::queue_overview::{QueueOverview, queue_overview};
use super::why::{Circumstances, Why, why};
use super::{ActOnce, Doctor, Explain, FlowControl, ReadLimits, RequestKey, RuntimeSettings, StorageResult};
use crate::attempts::{AttemptRecord, attempts};
use crate::enqueued::Enqueued;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::new_job::NewJob;
use crate::progress::Progress;
use crate::record::{AttemptError, DeadLetters, JobEnd, JobRecord, WorkerRecord};
use crate::state::JobState;
use crate::storage_error::StorageError;

/// Why a job was cancelled by an operator who gave no name. All cancelled jobs have its fingerprint.
pub const CANCELLED: &str = "cancelled by an operator";
/// Why a job was cancelled together with all others.
pub const CANCELLED_WITH_ALL: &str = "cancelled by an operator, with all others";

/// The operations of a database for operators and the command line, in addition to those for workers.
#[async_trait]
pub trait Operator:
    RuntimeSettings + History + Operations + Explain + ReadLimits + FlowControl + Doctor + ActOnce
{
    /// Jobs that match, newest first. It examines a bounded number of rows, so a page may be short or empty although
    /// there are more. Then [`Page::searched_to`] is set.
    async fn list(&self, filter: &JobFilter, paging: Paging) -> StorageResult<Page>;

    /// The newest jobs that match, at most `limit`. It reads as many pages as that takes.
    async fn list_all(&self, filter: &JobFilter, limit: usize) -> StorageResult<Vec<JobRecord>> {
        let mut jobs = Vec::new();
        let mut paging = Paging::newest(limit.min(MAX_PAGE));
        loop {
            let page = self.list(filter, paging).await?;
            jobs.extend(page.jobs);
            match page.searched_to {
                Some(id) if jobs.len() < limit => paging = Paging::before(id, (limit - jobs.len()).min(MAX_PAGE)),
                _ => return Ok(jobs),
            }
        }
    }

    /// How many jobs match. It examines a bounded number of rows.
    async fn count(&self, filter: &JobFilter) -> StorageResult<Count>;

    /// How many jobs match in each of the states that the filter takes. It examines a bounded number of rows, with one
    /// statement on PostgreSQL.
    async fn count_by_state(&self, filter: &JobFilter) -> StorageResult<Vec<(JobState, Count)>>;

    /// Applies the action to these jobs. Returns a result for each id, in this order. An id that is given twice gets
    /// the same result twice. What was changed is written to the audit in the same transaction, at most a thousand jobs
    /// in each.
    async fn act(&self, action: &Action, ids: &[JobId], actor: &str) -> StorageResult<Vec<Operated>>;

    /// Starts an action on all jobs that match and exist now. Workers do it in batches, and so does any program that
    /// calls [`step_operation`](Operations::step_operation).
    async fn start_operation(&self, action: &Action, filter: &JobFilter, actor: &str) -> StorageResult<OperationId>;

    /// The newest operations before this one.
    async fn operations(&self, before: Option<OperationId>, limit: usize) -> StorageResult<Vec<OperationRecord>>;

    /// One operation.
    async fn operation(&self, id: OperationId) -> StorageResult<Option<OperationRecord>>;

    /// Ends an operation before it is done. Jobs that it has changed stay changed. Returns `false` if it has ended, or
    /// if there is no such operation.
    async fn cancel_operation(&self, id: OperationId, actor: &str) -> StorageResult<bool>;

    /// The newest failed attempts in groups, the largest groups first. A job that was cancelled counts with the
    /// attempts that failed before.
    async fn failures(&self, limit: usize) -> StorageResult<Failures>;

    /// What operators did, newest first, before this entry.
    async fn audit(&self, before: Option<i64>, limit: usize) -> StorageResult<Vec<AuditRecord>>;

    /// A key for a request that may arrive twice, such as a form.
    async fn request_key(&self) -> StorageResult<RequestKey> {
        Ok(RequestKey::new(self.audit(None, 1).await?.first().map(|newest| newest.id)))
    }

    /// Enqueues all of these jobs in one transaction, or none. Writes one entry to the audit, with this action:
    /// `enqueue` or `import`.
    async fn enqueue(&self, jobs: &[NewJob], action: &'static str, actor: &str) -> StorageResult<Vec<Enqueued>>;

    /// The attempts of a job, oldest first. `None` if there is no such job.
    async fn attempts(&self, id: JobId) -> StorageResult<Option<Vec<AttemptRecord>>> {
        Ok(self.show(id).await?.map(|(job, errors)| attempts(&job, &errors)))
    }

    /// Those of these jobs that exist, each once and in this order. Each comes with its failures, oldest first.
    async fn show_many(&self, ids: &[JobId]) -> StorageResult<Vec<(JobRecord, Vec<AttemptError>)>>;

    /// The state of a job, and its output and newest error if it has ended. `None` if there is no such job.
    async fn end(&self, id: JobId) -> StorageResult<Option<JobEnd>>;

    /// What the handler of a job has reported last, in any of its attempts. `None` if it has reported nothing.
    async fn progress(&self, id: JobId) -> StorageResult<Option<Progress>>;

    /// [Retries](Action::Retry) these jobs.
    async fn retry_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        self.act(&Action::Retry, ids, UNNAMED_OPERATOR).await
    }

    /// [Cancels](Action::Cancel) these jobs.
    async fn cancel_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        self.act(&Action::Cancel, ids, UNNAMED_OPERATOR).await
    }

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

    /// Why a job does not run, or how it ended.
    async fn why(&self, id: JobId) -> StorageResult<Why> {
        let circumstances = Circumstances {
            around: self.surroundings(id).await?,
            job: self.show(id).await?,
            progress: self.progress(id).await?,
            workers: self.workers().await?,
            queues: self.queues().await?,
            kinds: self.kinds().await?,
            unique_key: self.unique_key(id).await?,
        };
        Ok(why(id, circumstances))
    }

    /// Whether a plain session with this URL is read-only, because of a setting of the server, the database, the role
    /// or the URL. The sessions of workers override this setting.
    async fn is_read_only_by_default(&self) -> StorageResult<bool> {
        Ok(false)
    }

    /// Rows that the database refused to move, and that were set apart. A storage that never refuses a row returns
    /// none.
    async fn dead_letters(&self) -> StorageResult<DeadLetters>;

    /// The worker processes.
    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>>;

    /// The queues that have jobs, a pause, a setting or a live worker, by name.
    async fn queue_overview(&self) -> StorageResult<Vec<QueueOverview>> {
        let (stats, settings, workers) = (self.stats().await?, self.queues().await?, self.workers().await?);
        Ok(queue_overview(stats.queues, settings, &workers))
    }

    /// Stops all claims of all workers from now on, until [`thaw`](Self::thaw). Returns `false` if the database was
    /// frozen already; then the earlier `by` and `reason` stay. This and the other changes of the whole database are
    /// written to the audit in the same transaction.
    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool>;

    /// Ends a freeze and wakes the workers. Returns `false` if there was none.
    async fn thaw(&self, actor: &str) -> StorageResult<bool>;

    /// Sets the name of the environment that the database belongs to. `None` removes the name. Returns `false` if this
    /// was the name already.
    async fn set_environment(&self, environment: Option<&str>, actor: &str) -> StorageResult<bool>;

    /// Cancels waiting and running jobs that were enqueued before this time, at most `limit` of each. Returns how many.
    /// It waits for locked rows. So when it returns 0 no such job is left, except jobs that use features of a later
    /// version. Each call that cancels jobs adds an entry with their ids to the audit.
    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize, actor: &str) -> StorageResult<usize>;

    /// Moves the waiting jobs of these queues and kinds to an earlier time, all by the same span. The first of them is
    /// then due now. Returns the span, which is zero if one is due already or none waits. For
    /// [`skip_time`](Self::skip_time).
    async fn bring_forward(&self, queues: &[String], kinds: &[String]) -> StorageResult<Duration>;

    /// [`bring_forward`](Self::bring_forward) for a worker that skips time. Refuses it while another worker is alive,
    /// because that one's jobs would run too early.
    async fn skip_time(&self, worker: WorkerId, queues: &[String], kinds: &[String]) -> StorageResult<Duration> {
        match self.workers().await?.into_iter().find(|other| other.alive && other.id != worker) {
            Some(WorkerRecord { host, pid, .. }) => Err(StorageError::Config(format!(
                "time cannot be skipped: a worker on {host} (process {pid}) serves this database, and its jobs would run too early; give \
                 the test a database of its own, such as a `TestDatabase`"
            ))),
            None => self.bring_forward(queues, kinds).await,
        }
    }

    /// Moves all schedules to the current time. Missed ticks are never enqueued.
    async fn forget_missed_ticks(&self, actor: &str) -> StorageResult<()>;
}
