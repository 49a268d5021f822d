//! The options of a kind.

use std::time::Duration;

use crate::limit::KindRule;
use crate::retry::Backoff;
use crate::unique::Unique;

/// The options of all jobs of a kind. A single job may override some of them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JobOptions {
    /// The queue. Default: `default`.
    pub queue: &'static str,
    /// Higher runs first. Default: 0.
    pub priority: i16,
    /// How many attempts a job has, including the first. Default: 25.
    pub max_attempts: u16,
    /// The time limit of one attempt. Default: the worker's `timeout`, or unlimited.
    pub timeout: Option<Duration>,
    /// How long a failed job waits. Default: exponential with full jitter.
    pub backoff: Backoff,
    /// How long completed jobs are kept. Default: the worker's, 24 hours.
    pub retain: Retain,
    /// The arguments whose values appear in no log, error or page. Default: none.
    pub secrets: &'static [&'static str],
    /// The rules of the kind: its limits, its sequence and its rates. A job starts when all of them allow it. Default:
    /// none.
    pub rules: &'static [KindRule],
    /// How long after it is due the first attempt of a job may start. Later the job is cancelled. Default: without a
    /// limit.
    pub expires: Option<Duration>,
    /// When an enqueue finds a job with the same key. Default: jobs have no key.
    pub unique: Option<Unique>,
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
            secrets: &[],
            rules: &[],
            expires: None,
            unique: None,
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

    /// Sets how many attempts a job has, including the first.
    pub const fn max_attempts(mut self, max_attempts: u16) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Sets the time limit of one attempt.
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

    /// Names the arguments whose values appear in no log, error or page.
    pub const fn secrets(mut self, secrets: &'static [&'static str]) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets the rules: a job starts when all of them allow it.
    pub const fn rules(mut self, rules: &'static [KindRule]) -> Self {
        self.rules = rules;
        self
    }

    /// Whether the rules have a sequence. That of `run_again` is not meant: it never halts.
    pub fn in_sequence(&self) -> bool {
        self.rules.iter().any(|rule| rule.rule.on_discard().is_some())
    }

    /// Sets how long after it is due the first attempt of a job may start.
    pub const fn expires(mut self, time: Duration) -> Self {
        self.expires = Some(time);
        self
    }

    /// Makes the jobs unique.
    pub const fn unique(mut self, rule: Unique) -> Self {
        self.unique = Some(rule);
        self
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// How long a *completed* job of a kind stays readable. Cancelled and discarded jobs are always kept for the worker's
/// retention, so that an operator can examine them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retain {
    /// The worker's retention of completed jobs, 24 hours by default.
    #[default]
    Default,
    /// Not at all: the row is deleted at the completion.
    None,
    /// For this long after the completion.
    For(Duration),
    /// Until an operator deletes it.
    Forever,
}
