//! The trait of job types: the kind, the arguments and the defaults of the kind.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::instant::IntoInstant;
use crate::job_builder::JobBuilder;
use crate::job_options::JobOptions;
use crate::new_job::{IntoNewJob, InvalidJob, NewJob};
use crate::rules::{Limit, Rate, Sequence};
use crate::unique::Unique;

/// A type of job. A value of the type holds the arguments of one job.
///
/// `#[job]` on a function and `#[derive(Job)]` on a type implement this trait. Its provided methods return a builder
/// that overrides options of the kind for one job:
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
    /// The name that is stored with every job of this kind. If you change it, add the old name to the
    /// [aliases](JobOptions::aliases): otherwise workers of the new program do not run jobs that are already stored
    /// under it.
    const KIND: &'static str;

    /// The options of all jobs of this kind. A single job can override some of them.
    const OPTIONS: JobOptions = JobOptions::new();

    /// Makes the job due after `delay`, counted from the enqueue by the database's clock. Default: the job is due at
    /// once.
    fn delay(self, delay: Duration) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).delay(delay)
    }

    /// Makes the job due at `at`. With a time in the past, the job is due at once.
    fn run_at(self, at: impl IntoInstant) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).run_at(at)
    }

    /// Sets the priority. Jobs with a higher priority run first, and jobs of equal priority run in the order of their
    /// `run_at`. Default: that of the kind, which is 0 unless the kind sets another one.
    fn priority(self, priority: i16) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).priority(priority)
    }

    /// Sets the queue. Default: that of the kind, which is `default` unless the kind sets another one.
    fn queue(self, queue: impl Into<String>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).queue(queue)
    }

    /// Sets how many attempts the job has, including the first, from 1 to 32767. Default: that of the kind, which is 25
    /// unless the kind sets another number.
    fn max_attempts(self, max_attempts: u16) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).max_attempts(max_attempts)
    }

    /// Sets labels for your own queries, at most 32 of up to 200 bytes each. Workers do not read them. Default: no
    /// labels.
    fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).tags(tags)
    }

    /// Sets a limit for this job: how many jobs with the limit's name and key may run at once. It replaces the limits
    /// of the kind. Several calls set several limits.
    fn concurrency(self, limit: Limit) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).concurrency(limit)
    }

    /// Puts this job into a sequence: it starts after all earlier jobs of the sequence have ended. It replaces the
    /// sequence of the kind.
    fn sequence(self, sequence: Sequence) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).sequence(sequence)
    }

    /// Sets a rate for this job: how many jobs with the rate's name and key may start in a period. It replaces the
    /// rates of the kind. Several calls set several rates.
    fn rate(self, rate: Rate) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).rate(rate)
    }

    /// Cancels this job if its first attempt has not started within `time` after the job became due. `time` is from 1
    /// ms to 100 years. Default: that of the kind; a job of a kind without one does not expire.
    fn expires(self, time: Duration) -> JobBuilder
    where
        Self: Sized,
    {
        JobBuilder::new(self).expires(time)
    }

    /// Gives this job a unique key, and sets what the enqueue does if another job has the key. Default: the rule of the
    /// kind; a job of a kind without one has no key.
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
    /// Creates a builder from a job, with the options of its kind.
    pub fn new<J: Job>(job: J) -> Self {
        Self::of(J::KIND, const { &J::OPTIONS }, &job)
    }
}
/// A job with the defaults of its kind and no arguments. The statement that enqueues it provides them.
#[doc(hidden)]
pub fn without_arguments<J: Job>() -> JobBuilder {
    JobBuilder::of(J::KIND, const { &J::OPTIONS }, &serde_json::Map::new())
}
