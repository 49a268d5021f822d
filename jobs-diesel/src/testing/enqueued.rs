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
    /// Higher runs first.
    pub priority: i16,
    /// When it is due.
    pub run_at: DateTime<Utc>,
    /// Labels.
    pub tags: Vec<String>,
    /// Attempts so far: 0 if it has not run.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
}

/// Gives access to the fields of the arguments without `.args`.
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
/// are included, with upgraded arguments. Sync connections return a `Result`, async ones a future of it. Fails if the
/// database fails, or if arguments cannot be decoded.
///
/// Write `enqueued::<SendWelcome, _>(&mut conn)`.
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
