//! `job_id.cancel(&mut conn)`, `retry` and `reschedule`: what an application does to jobs that exist, on its own
//! connection.

use chrono::DateTime;
use diesel_jobs_core::{IntoInstant, Selection};

use crate::enqueue_connection::EnqueueConnection;
use crate::job_change::{ChangeError, JobChange, Verb};

/// Cancels, retries and reschedules jobs through your own connection, inside its transaction if it is in one.
///
/// Call a method on a [`JobId`](diesel_jobs_core::JobId), on a slice of them, on
/// [`Tagged("..")`](diesel_jobs_core::Tagged) for all jobs with a tag, or on a job with a unique key, for the job that
/// has this key. Each method returns how many jobs it has changed: a sync connection returns a `Result<usize,
/// ChangeError>`, and an async connection returns a future of it. A job to which the change does not apply is left as
/// it is and is not an error.
///
/// The change is a part of your transaction: if it is rolled back, nothing has happened. Until your transaction ends,
/// no worker starts or finishes the jobs that it has changed, so keep it short. The change is written to the audit,
/// with the role of the session as the actor on PostgreSQL. To find a job by its tag, the database reads all waiting
/// and running jobs, and for a retry also the ended ones.
pub trait Change: Selection + Sized {
    /// Cancels jobs that wait or run. If a job runs, its handler is told, and what it returns is not stored. Jobs that
    /// have ended stay as they are.
    fn cancel<'c, C, M>(self, conn: &'c mut C) -> C::Output<'c, usize, ChangeError>
    where
        C: EnqueueConnection<M> + 'c,
    {
        conn.change(JobChange::new(Verb::Cancel, self.selected()))
    }

    /// Makes cancelled, discarded and waiting jobs due now, with at least one attempt left. Jobs that run or are
    /// completed stay as they are. A job that has ended has no unique key any more, so give its id or its tag.
    fn retry<'c, C, M>(self, conn: &'c mut C) -> C::Output<'c, usize, ChangeError>
    where
        C: EnqueueConnection<M> + 'c,
    {
        conn.change(JobChange::new(Verb::Retry, self.selected()))
    }

    /// Sets the time of waiting jobs: they start at this time or later. A time in the past means now. A job that
    /// expires does so later or earlier by the same span. Jobs that run or have ended stay as they are.
    ///
    /// # Errors
    ///
    /// [`ChangeError::TooFarAhead`] if the time is more than a hundred years from now.
    fn reschedule<'c, C, M>(self, conn: &'c mut C, at: impl IntoInstant) -> C::Output<'c, usize, ChangeError>
    where
        C: EnqueueConnection<M> + 'c,
    {
        // A database does not store each time that `chrono` has. All of these are in the past.
        let at = at.into_instant().max(DateTime::UNIX_EPOCH);
        conn.change(JobChange::new(Verb::Reschedule(at), self.selected()))
    }
}

impl<S: Selection> Change for S {}
