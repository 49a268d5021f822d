//! `job.enqueue(&mut conn)` and its bulk form.

use diesel_jobs_core::__private::{sending, sending_all};
use diesel_jobs_core::{Enqueued, IntoNewJob, InvalidJob, JobContext, NewJob};

use crate::enqueue_connection::{EnqueueConnection, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};

/// Enqueues a job through your own connection, inside its transaction if it is in one.
pub trait Enqueue: IntoNewJob + Sized {
    /// Inserts the job, and returns an [`Enqueued`], which dereferences to the id of the job. A sync connection returns
    /// a `Result<Enqueued, EnqueueError>`, and an async connection returns a future of it.
    ///
    /// If the connection is in a transaction, the job is a part of it: the job exists if and only if that transaction
    /// commits.
    ///
    /// Through shared references to an `AsyncPgConnection`, statements are pipelined: the second one is sent before the
    /// answer to the first one arrives. After `let (mut one, mut other) = (&conn, &conn)`, await the futures of
    /// `a.enqueue(&mut one)` and `b.enqueue(&mut other)` together. Each future borrows a reference of its own.
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

/// Enqueues many jobs: either all of one type, or of several types as [`JobBuilder`](diesel_jobs_core::JobBuilder)s.
/// Returns one [`Enqueued`] per job, in the order of the jobs.
///
/// All of the jobs are inserted, or none of them. This function sends one statement per 1,000 jobs. If more than one is
/// needed, they run in a transaction of their own, or in a savepoint if the connection is already in a transaction.
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

/// Migrates the schema of `diesel-jobs` in the database of `conn` to the version of this program. You can call this
/// function repeatedly, and from several programs at once. Alternatively, run `worker migrate`, or copy the migrations
/// into your own with `worker migrations copy` and apply them with `diesel migration run`.
pub fn migrate<'c, C, M>(conn: &'c mut C) -> C::Output<'c, (), MigrateError>
where
    C: TransactionConnection<M> + 'c,
{
    conn.migrate()
}

/// Completes the running job together with the handler's own writes.
pub trait CompleteIn {
    /// Completes the job inside the transaction that `conn` is in, so that the handler's writes and the completion
    /// commit together or not at all.
    ///
    /// Commit the transaction or roll it back before the handler returns. On PostgreSQL, it may also end with `PREPARE
    /// TRANSACTION`: the job then stays `running` until `COMMIT PREPARED` completes it or `ROLLBACK PREPARED` fails the
    /// attempt.
    ///
    /// # Errors
    ///
    /// [`CompleteError::LeaseLost`] if the attempt may no longer finish the job; let this error roll the transaction
    /// back. [`CompleteError::NoTransaction`] if `conn` is not in a transaction.
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
