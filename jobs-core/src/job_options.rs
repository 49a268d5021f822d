//! What holds for all jobs of a kind.

use std::time::Duration;

use crate::retry::Backoff;

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
#[non_exhaustive]
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
