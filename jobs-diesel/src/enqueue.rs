//! `job.enqueue(&mut conn)` and its bulk form.

use diesel_jobs_core::__private::{sending, sending_all};
use diesel_jobs_core::{Enqueued, IntoNewJob, InvalidJob, JobContext, NewJob};

use crate::enqueue_connection::{EnqueueConnection, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};

/// Enqueues a job through the caller's own connection. If the connection is in a transaction, the job becomes a part of
/// it.
pub trait Enqueue: IntoNewJob + Sized {
    /// Inserts the job. The answer derefs to its id. Sync connections return a `Result<Enqueued, EnqueueError>`, async
    /// ones a future of it.
    ///
    /// If the connection is in a transaction, the job exists if and only if that transaction commits.
    ///
    /// With shared references to an `AsyncPgConnection`, statements are pipelined: both are sent before the first
    /// answer arrives. After `let (mut one, mut other) = (&conn, &conn)`, await the futures of `a.enqueue(&mut one)`
    /// and `b.enqueue(&mut other)` together. Each future borrows its own reference.
    fn enqueue<'c, C, M>(self, conn: &'c mut C) -> C::Output<'c, Enqueued, EnqueueError>
    where
        C: EnqueueConnection<M> + 'c,
    {
        let mut job = self.into_new_job();
        // An async connection returns a future that is a part of this span.
        sending(&mut job).in_scope(|| conn.insert_one(job))
    }
}

impl<J: IntoNewJob> Enqueue for J {}

/// Enqueues many jobs, of one kind or mixed (as [`JobBuilder`](diesel_jobs_core::JobBuilder)s). Returns an answer
/// for each, in the order of the jobs.
///
/// It sends one statement per 1,000 jobs. Several statements run in a transaction of their own, or in a savepoint of
/// the caller's transaction. So all jobs are inserted or none.
pub fn enqueue_all<'c, C, M, I>(conn: &'c mut C, jobs: I) -> C::Output<'c, Vec<Enqueued>, EnqueueError>
where
    C: EnqueueConnection<M> + 'c,
    I: IntoIterator,
    I::Item: IntoNewJob,
{
    let mut jobs: Result<Vec<NewJob>, InvalidJob> = jobs.into_iter().map(IntoNewJob::into_new_job).collect();
    let span = sending_all(jobs.as_deref_mut().unwrap_or_default());
    span.in_scope(|| conn.insert_all(jobs))
}

/// Brings the schema of `diesel-jobs` in the database of `conn` up to the version of this program. It is safe to
/// repeat, and to run from several programs at once. Alternatives are `worker migrate`, or `worker migrations copy` and
/// `diesel migration run`.
pub fn migrate<'c, C, M>(conn: &'c mut C) -> C::Output<'c, (), MigrateError>
where
    C: TransactionConnection<M> + 'c,
{
    conn.migrate()
}

/// Finishes the running job together with the handler's own writes.
pub trait CompleteIn {
    /// Completes the job inside the transaction that `conn` is in: the handler's writes and the completion commit
    /// together or not at all. Fails with [`CompleteError::LeaseLost`] if the attempt may no longer finish the job. Let
    /// this error roll the transaction back.
    ///
    /// End the transaction before the handler returns, with a commit or a rollback. On PostgreSQL it may also end with
    /// `PREPARE TRANSACTION`: the job stays `running` until `COMMIT PREPARED` completes it or `ROLLBACK PREPARED` fails
    /// the attempt.
    fn complete_in<'c, C, M>(&self, conn: &'c mut C) -> C::Output<'c, (), CompleteError>
    where
        C: TransactionConnection<M> + 'c;
}

impl CompleteIn for JobContext {
    fn complete_in<'c, C, M>(&self, conn: &'c mut C) -> C::Output<'c, (), CompleteError>
    where
        C: TransactionConnection<M> + 'c,
    {
        conn.complete(self)
    }
}
