//! `job.enqueue(&mut conn)` and its bulk form.

use diesel_jobs_core::{IntoNewJob, InvalidJob, JobContext, JobId, NewJob};

use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::executor::Executor;

/// Enqueues a job through the caller's own connection, inside whatever transaction it is in.
pub trait Enqueue: IntoNewJob + Sized {
    /// Inserts the job. Sync connections answer a `Result<JobId, EnqueueError>`, async ones a future of it.
    ///
    /// If the connection is in a transaction, the job exists exactly if that transaction commits.
    fn enqueue<'c, C, M>(self, conn: &'c mut C) -> C::Output<'c, JobId, EnqueueError>
    where
        C: Executor<M> + 'c,
    {
        conn.insert_one(self.into_new_job())
    }
}

impl<J: IntoNewJob> Enqueue for J {}

/// Enqueues many jobs, of one kind or mixed (as [`JobBuilder`](diesel_jobs_core::JobBuilder)s); the ids come in the jobs' order.
///
/// One statement per 1,000 jobs; outside of a transaction it makes one, so that all jobs are there or none.
pub fn enqueue_all<'c, C, M, I>(conn: &'c mut C, jobs: I) -> C::Output<'c, Vec<JobId>, EnqueueError>
where
    C: Executor<M> + 'c,
    I: IntoIterator,
    I::Item: IntoNewJob,
{
    let jobs: Result<Vec<NewJob>, InvalidJob> = jobs.into_iter().map(IntoNewJob::into_new_job).collect();
    conn.insert_all(jobs)
}

/// Brings the schema of `diesel-jobs` in the database behind `conn` up to this program's. Safe to repeat and to run from
/// several programs at once. The alternative is `worker migrate`, or `worker migrations copy` and `diesel migration run`.
pub fn migrate<'c, C, M>(conn: &'c mut C) -> C::Output<'c, (), MigrateError>
where
    C: Executor<M> + 'c,
{
    conn.migrate()
}

/// Finishes the running job together with the handler's own writes.
pub trait CompleteIn {
    /// Completes the job inside the transaction that `conn` is in: its effects and the completion commit together or
    /// not at all. Fails with [`CompleteError::LeaseLost`] if the attempt may not finish the job any more; let the
    /// error roll the transaction back.
    ///
    /// End the transaction before the handler returns, by a commit or a rollback. `PREPARE TRANSACTION` is not supported: the
    /// worker would take the job for not completed, and whatever moves it waits for the prepared transaction's end.
    fn complete_in<'c, C, M>(&self, conn: &'c mut C) -> C::Output<'c, (), CompleteError>
    where
        C: Executor<M> + 'c;
}

impl CompleteIn for JobContext {
    fn complete_in<'c, C, M>(&self, conn: &'c mut C) -> C::Output<'c, (), CompleteError>
    where
        C: Executor<M> + 'c,
    {
        conn.complete(self)
    }
}
