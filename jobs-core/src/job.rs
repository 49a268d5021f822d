//! A job before it is stored: its kind, its arguments and the defaults of its kind.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job_options::JobOptions;
use crate::new_job::{IntoNewJob, InvalidJob, JobBuilder, NewJob};

/// Identifies a job for life, through every state and retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i64> for JobId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl From<JobId> for i64 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

/// The typed arguments of one kind of job.
///
/// `#[job]` on a function and `#[derive(Job)]` on a struct implement it. The provided methods start a builder
/// that overrides the kind's defaults for one job:
///
/// ```
/// # use diesel_jobs_core::{IntoNewJob, Job, JobOptions};
/// # use std::time::Duration;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendWelcome { user_id: i64 }
///
/// impl Job for SendWelcome {
///     const KIND: &'static str = "send_welcome";
///     const OPTIONS: JobOptions = JobOptions::new().queue("mail");
/// }
///
/// let job = SendWelcome { user_id: 7 }.delay(Duration::from_secs(60)).priority(5).into_new_job()?;
/// assert_eq!((&*job.kind, &*job.queue, job.priority), ("send_welcome", "mail", 5));
/// # Ok::<_, diesel_jobs_core::InvalidJob>(())
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name stored with every job of this kind. Changing it orphans the jobs already stored.
    const KIND: &'static str;

    /// What holds for jobs of this kind unless a single job says otherwise.
    const OPTIONS: JobOptions = JobOptions::new();

    /// Runs the job no sooner than `delay` from now, by the database's clock. Default: at once.
    fn delay(self, delay: Duration) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).delay(delay)
    }

    /// Runs the job no sooner than `at`. A time in the past means at once.
    fn run_at(self, at: chrono::DateTime<chrono::Utc>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).run_at(at)
    }

    /// Higher runs first; jobs of equal priority run in the order of `run_at`. Default: the kind's, else 0.
    fn priority(self, priority: i16) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).priority(priority)
    }

    /// Puts the job into another queue than its kind's.
    fn queue(self, queue: impl Into<String>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).queue(queue)
    }

    /// How often the job may be attempted, the first attempt included. Default: the kind's, else 25.
    fn max_attempts(self, max_attempts: u16) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).max_attempts(max_attempts)
    }

    /// Labels for people and their queries; the worker does not read them. Default: none.
    fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).tags(tags)
    }
}

impl<J: Job> IntoNewJob for J {
    fn into_new_job(self) -> Result<NewJob, InvalidJob> {
        JobBuilder::new(self).into_new_job()
    }
}

impl<J: Job> From<J> for JobBuilder {
    fn from(job: J) -> Self {
        Self::new(job)
    }
}

impl JobBuilder {
    /// Starts from a job and the defaults of its kind.
    pub fn new<J: Job>(job: J) -> Self {
        Self::of(J::KIND, J::OPTIONS, &job)
    }
}
