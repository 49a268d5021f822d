//! `enqueued`: the waiting jobs of one kind, with their arguments as values.

use std::ops::Deref;

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{JobId, JobRecord, Registered, StorageError};

use super::decoded::{decoded, is_of};
use super::store::{AsTestConnection, TestConnection};
use super::waiting::Among;

/// A waiting job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Enqueued<J> {
    /// The arguments.
    pub args: J,
    /// The id.
    pub id: JobId,
    /// The queue.
    pub queue: String,
    /// The priority. Jobs with a higher priority run first.
    pub priority: i16,
    /// When the job is due.
    pub run_at: DateTime<Utc>,
    /// The tags.
    pub tags: Vec<String>,
    /// The number of attempts so far, 0 if the job has not run yet.
    pub attempt: u16,
    /// How many attempts the job has, including the first.
    pub max_attempts: u16,
}

/// Lets you read the fields of the arguments without writing `.args`.
impl<J> Deref for Enqueued<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.args
    }
}

impl<J: Registered> Enqueued<J> {
    pub(super) fn of(job: JobRecord) -> StorageResult<Self> {
        let args = decoded(&job).map_err(|error| {
            let problem = format!("the arguments of job {} of kind `{}` cannot be decoded: {error}", job.id, job.kind);
            StorageError::Refused(problem.into())
        })?;
        Ok(Self {
            args,
            id: job.id,
            queue: job.queue,
            priority: job.priority,
            run_at: job.run_at,
            tags: job.tags,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
        })
    }
}

/// Returns the waiting jobs of kind `J` that this connection sees, in the order of their ids. Jobs of earlier versions
/// are included, with their arguments upgraded. A sync connection returns a `Result`, and an async connection returns a
/// future of it. Fails if the database fails, or if the arguments of a job cannot be decoded.
///
/// Name the type of the job: `enqueued::<SendWelcome, _>(&mut conn)`.
pub fn enqueued<J, C>(conn: &mut C) -> <C::Connection as TestConnection>::Answer<'_, StorageResult<Vec<Enqueued<J>>>>
where
    J: Registered + Send,
    C: AsTestConnection,
{
    let conn = conn.as_test_connection();
    <C::Connection as TestConnection>::answer(Box::pin(async move {
        let mut jobs = conn.waiting(Among::All).await?.jobs;
        jobs.retain(|job| is_of::<J>(&job.kind));
        jobs.sort_by_key(|job| job.id);
        jobs.into_iter().map(Enqueued::of).collect()
    }))
}
