//! The trait of job types: the kind, the arguments and the defaults of the kind.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::instant::IntoInstant;
use crate::job_builder::JobBuilder;
use crate::job_options::JobOptions;
use crate::limit::{Limit, Rate, Sequence};
use crate::new_job::{IntoNewJob, InvalidJob, NewJob};
use crate::unique::Unique;

/// The typed arguments of one kind of job.
///
/// `#[job]` on a function and `#[derive(Job)]` on a type implement it. The provided methods return a builder that
/// overrides the kind's defaults for one job:
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "not a job",
    note = "write `#[job]` above a function and name the type that it makes, or write `#[derive(Job)]` above a struct with serde's derives"
)]
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name that is stored with every job of this kind. If you change it, no worker of the new program runs the
    /// jobs that are stored already.
    const KIND: &'static str;

    /// The options of jobs of this kind. A single job may override some of them.
    const OPTIONS: JobOptions = JobOptions::new();

    /// Makes the job due after `delay`, by the database's clock. Default: at once.
    fn delay(self, delay: Duration) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).delay(delay)
    }

    /// Makes the job due at `at`. A time in the past means at once.
    fn run_at(self, at: impl IntoInstant) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).run_at(at)
    }

    /// Sets the priority. Jobs with a higher priority run first. Jobs of equal priority run in the order of `run_at`.
    /// Default: the kind's, else 0.
    fn priority(self, priority: i16) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).priority(priority)
    }

    /// Sets the queue. Default: the kind's, else `default`.
    fn queue(self, queue: impl Into<String>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).queue(queue)
    }

    /// Sets how many attempts the job has, including the first. Default: the kind's, else 25.
    fn max_attempts(self, max_attempts: u16) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).max_attempts(max_attempts)
    }

    /// Sets labels for your own queries. The worker does not read them. Default: none.
    fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).tags(tags)
    }

    /// Sets the limit of this job: how many jobs with the same name and key may run at once. Default: the kind's, else
    /// none.
    fn concurrency(self, limit: Limit) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).concurrency(limit)
    }

    /// Puts this job into a sequence: it starts after all earlier jobs of the sequence have ended. Default: the kind's,
    /// else none.
    fn sequence(self, sequence: Sequence) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).sequence(sequence)
    }

    /// Sets the rate of this job: how many jobs with the same name and key may start in a period. Default: the kind's,
    /// else none.
    fn rate(self, rate: Rate) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).rate(rate)
    }

    /// Cancels this job if its first attempt has not started within this time after it is due, from 1 ms to 100 years.
    /// Default: the kind's, else the job does not expire.
    fn expires_in(self, time: Duration) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).expires_in(time)
    }

    /// Sets the unique key of this job, and what the enqueue does if another job has the key. Default: the kind's, else
    /// the job has no key.
    fn unique(self, rule: Unique) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).unique(rule)
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
        Self::of(J::KIND, const { &J::OPTIONS }, &job)
    }
}
/// A job with the defaults of its kind and no arguments. The statement that enqueues it provides them.
#[doc(hidden)]
pub fn without_arguments<J: Job>() -> JobBuilder {
    JobBuilder::of(J::KIND, const { &J::OPTIONS }, &serde_json::Map::new())
}
