//! A job before it is stored: its kind, its arguments and the defaults of its kind.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::new_job::JobBuilder;
use crate::retry::Backoff;

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
/// # use jobs_core::{IntoNewJob, Job, JobOptions};
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
/// # Ok::<_, jobs_core::InvalidJob>(())
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

/// What holds for all jobs of a kind unless a single job overrides it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JobOptions {
    /// The queue. Default: `default`.
    pub queue: &'static str,
    /// Higher runs first. Default: 0.
    pub priority: i16,
    /// Attempts before the job is discarded, the first included. Default: 25.
    pub max_attempts: u16,
    /// How long one attempt may take. Default: unlimited.
    pub timeout: Option<Duration>,
    /// How long a failed job waits. Default: exponential with full jitter.
    pub backoff: Backoff,
    /// How long completed jobs are kept. Default: the worker's, 24 hours.
    pub retain: Retain,
}

impl JobOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            queue: "default",
            priority: 0,
            max_attempts: 25,
            timeout: None,
            backoff: Backoff::DEFAULT,
            retain: Retain::Default,
        }
    }

    /// Sets the queue.
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the priority.
    pub const fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how many attempts a job has, the first included.
    pub const fn max_attempts(mut self, max_attempts: u16) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Sets how long one attempt may take.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long a failed job waits for its next attempt.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets how long completed jobs stay readable.
    pub const fn retain(mut self, retain: Retain) -> Self {
        self.retain = retain;
        self
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How long a *completed* job of a kind stays readable. Cancelled and discarded jobs are always kept for the
/// worker's retention, because somebody may have to look at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    /// As long as the worker's settings say: 24 hours unless configured.
    #[default]
    Default,
    /// Not at all: the row is gone with the completion.
    None,
    /// For this long after the completion.
    For(Duration),
    /// Until somebody deletes it.
    Forever,
}
