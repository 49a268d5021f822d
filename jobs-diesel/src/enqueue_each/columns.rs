//! The arguments of jobs as expressions of a query, and the options of these jobs.

use std::marker::PhantomData;
use std::time::Duration;

use diesel_jobs_core::{IntoInstant, Job, JobBuilder, without_arguments};

/// The name of an argument, the SQL of its JSON value on SQLite, given the column, and whether the column is JSON.
pub(crate) type Key = (&'static str, fn(&str) -> String, bool);

/// The arguments of a job `J` as expressions of a query, for [`enqueue_each`](super::EnqueueEach::enqueue_each). The
/// function `columns`, which `#[job]` generates for each job with arguments, returns it. Its methods override options
/// of the kind for these jobs.
#[must_use = "pass it to `enqueue_each`"]
pub struct JobColumns<J, E> {
    pub(super) job: JobBuilder,
    pub(super) expressions: E,
    pub(super) keys: Vec<Key>,
    of: PhantomData<fn() -> J>,
}

impl<J, E> std::fmt::Debug for JobColumns<J, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobColumns").field("job", &self.job).finish_non_exhaustive()
    }
}

impl<J: Job, E> JobColumns<J, E> {
    /// The expressions, in the order of the arguments. For the macros.
    #[doc(hidden)]
    #[expect(clippy::type_complexity, reason = "an alias would be one more public name")]
    pub fn new(expressions: E, keys: &[(&'static str, fn(&str) -> String, bool)]) -> Self {
        Self { job: without_arguments::<J>(), expressions, keys: keys.to_vec(), of: PhantomData }
    }

    fn with(self, set: impl FnOnce(JobBuilder) -> JobBuilder) -> Self {
        Self { job: set(self.job), ..self }
    }

    /// See [`Job::delay`].
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|job| job.delay(delay))
    }

    /// See [`Job::run_at`].
    pub fn run_at(self, at: impl IntoInstant) -> Self {
        self.with(|job| job.run_at(at))
    }

    /// See [`Job::priority`].
    pub fn priority(self, priority: i16) -> Self {
        self.with(|job| job.priority(priority))
    }

    /// See [`Job::queue`].
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with(|job| job.queue(queue))
    }

    /// See [`Job::max_attempts`].
    pub fn max_attempts(self, max_attempts: u16) -> Self {
        self.with(|job| job.max_attempts(max_attempts))
    }

    /// See [`Job::tags`].
    pub fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        self.with(|job| job.tags(tags))
    }
}
