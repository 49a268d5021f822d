//! The options of a kind.

use std::borrow::Cow;
use std::time::Duration;

use crate::retry::Backoff;
use crate::rules::KindRule;
use crate::unique::Unique;

/// The options of all jobs of a kind. A single job can override some of them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JobOptions {
    /// The names that the kind had before, without a version, the oldest first. Workers run jobs that are stored under
    /// these names, too. Default: none.
    pub aliases: &'static [&'static str],
    /// The queue. Default: `default`.
    pub queue: &'static str,
    /// The priority. Jobs with a higher priority run first. Default: 0.
    pub priority: i16,
    /// How many attempts a job has, including the first. Default: 25.
    pub max_attempts: u16,
    /// How long one attempt may take. Default: the worker's `timeout`, which is unlimited unless it is set.
    pub timeout: Option<Duration>,
    /// How long a failed job waits for its next attempt. Default: [`Backoff::DEFAULT`], exponential with full jitter.
    pub backoff: Backoff,
    /// How long completed jobs stay readable. Default: the worker's retention, which is 24 hours unless it is set.
    pub retain: Retain,
    /// The names of the arguments whose values appear in no log, error or page. Default: none.
    pub secrets: &'static [&'static str],
    /// The rules of the kind: its limits, its sequence and its rates. A job starts when all of its rules allow it.
    /// Default: none.
    pub rules: &'static [KindRule],
    /// How long after the job became due its first attempt may still start. After that, the job is cancelled. Default:
    /// the job does not expire.
    pub expires: Option<Duration>,
    /// The rule that gives jobs a unique key, and decides what an enqueue does if another job has it. Default: jobs
    /// have no key.
    pub unique: Option<Unique>,
}

impl JobOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            aliases: &[],
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

    /// Names the names that the kind had before, without a version, the oldest first.
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// The name of the unique keys of this kind: its oldest name, so that old and new programs share the keys.
    pub(crate) fn key_name(&self, kind: Cow<'static, str>) -> Cow<'static, str> {
        self.aliases.first().map_or(kind, |oldest| Cow::Borrowed(oldest))
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

    /// Names the arguments whose values appear in no log, error or page.
    pub const fn secrets(mut self, secrets: &'static [&'static str]) -> Self {
        self.secrets = secrets;
        self
    }

    /// Sets the rules. A job starts when all of them allow it.
    pub const fn rules(mut self, rules: &'static [KindRule]) -> Self {
        self.rules = rules;
        self
    }

    /// Whether the kind has a sequence among its rules. The sequence that `run_again` creates does not count, because
    /// it never halts.
    pub fn in_sequence(&self) -> bool {
        self.rules.iter().any(|rule| rule.rule.on_discard().is_some())
    }

    /// Sets how long after the job became due its first attempt may still start.
    pub const fn expires(mut self, time: Duration) -> Self {
        self.expires = Some(time);
        self
    }

    /// Gives the jobs a unique key by this rule.
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
    /// Not at all: the row is deleted when the job completes.
    None,
    /// For this long after the completion.
    For(Duration),
    /// Until an operator deletes the job.
    Forever,
}
