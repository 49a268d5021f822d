//! The options that an enqueue can set for one job, in place of those of its kind.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::finite::json_text;
use crate::instant::IntoInstant;
use crate::job_options::JobOptions;
use crate::jobs_of_rows::JobsOfRows;
use crate::keyed_job::keyed;
use crate::new_job::{IntoNewJob, InvalidJob, NewJob, RunAt};
use crate::rules::{Limit, OwnRule, Rate, Rules, Sequence};
use crate::unique::Unique;

/// A job whose options may differ from those of its kind. The methods of [`Job`](crate::Job) return it.
///
/// `JobBuilder` has no type parameter for the job, so you can collect jobs of several kinds in one `Vec` for
/// `enqueue_all`: `vec![SendWelcome { user_id: 1 }.into(), Reindex.priority(-5)]`.
#[derive(Debug)]
#[must_use = "a job does nothing until it is enqueued"]
pub struct JobBuilder {
    job: NewJob,
    encode_error: Option<serde_json::Error>,
    options: &'static JobOptions,
    rules: Vec<OwnRule>,
    unique: Option<Box<Unique>>,
}

impl JobBuilder {
    /// The options are a reference, because each job of a bulk would copy them.
    pub(crate) fn of(kind: &'static str, options: &'static JobOptions, args: &impl Serialize) -> Self {
        let (args, encode_error) = match json_text(args) {
            Ok(args) => (args, None),
            Err(error) => (String::new(), Some(error)),
        };
        let job = NewJob {
            kind: Cow::Borrowed(kind),
            queue: Cow::Borrowed(options.queue),
            priority: options.priority,
            run_at: RunAt::Now,
            max_attempts: options.max_attempts,
            args,
            tags: Vec::new(),
            traceparent: None,
            rules: Rules::default(),
            expires: options.expires,
            unique: None,
        };
        let unique = options.unique.map(Box::new);
        Self { job, encode_error, options, rules: Vec::new(), unique }
    }

    /// What the jobs of the rows of a query have in common. The arguments of this job are left out.
    #[doc(hidden)]
    pub fn of_rows(self) -> Result<JobsOfRows, InvalidJob> {
        JobsOfRows::new(self.job, self.options, self.unique)
    }

    /// See [`Job::concurrency`](crate::Job::concurrency).
    pub fn concurrency(self, limit: Limit) -> Self {
        self.rule(limit.into())
    }

    /// See [`Job::sequence`](crate::Job::sequence).
    pub fn sequence(self, sequence: Sequence) -> Self {
        self.rule(sequence.into())
    }

    /// See [`Job::rate`](crate::Job::rate).
    pub fn rate(self, rate: Rate) -> Self {
        self.rule(rate.into())
    }

    fn rule(mut self, rule: OwnRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// See [`Job::unique`](crate::Job::unique).
    pub fn unique(mut self, rule: Unique) -> Self {
        self.unique = Some(Box::new(rule));
        self
    }

    /// See [`Job::expires`](crate::Job::expires).
    pub fn expires(mut self, time: Duration) -> Self {
        self.job.expires = Some(time);
        self
    }

    /// See [`Job::delay`](crate::Job::delay).
    pub fn delay(mut self, delay: Duration) -> Self {
        self.job.run_at = RunAt::After(delay);
        self
    }

    /// See [`Job::run_at`](crate::Job::run_at).
    pub fn run_at(mut self, at: impl IntoInstant) -> Self {
        self.job.run_at = RunAt::At(at.into_instant());
        self
    }

    /// See [`Job::priority`](crate::Job::priority).
    pub fn priority(mut self, priority: i16) -> Self {
        self.job.priority = priority;
        self
    }

    /// See [`Job::queue`](crate::Job::queue).
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.job.queue = Cow::Owned(queue.into());
        self
    }

    /// See [`Job::max_attempts`](crate::Job::max_attempts).
    pub fn max_attempts(mut self, max_attempts: u16) -> Self {
        self.job.max_attempts = max_attempts;
        self
    }

    /// See [`Job::tags`](crate::Job::tags).
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.job.tags = tags.into_iter().map(Into::into).collect();
        self
    }
}

impl IntoNewJob for JobBuilder {
    fn into_new_job(self) -> Result<NewJob, InvalidJob> {
        let Self { job, encode_error, options, rules, unique } = self;
        if let Some(problem) = encode_error {
            return Err(InvalidJob::Encode { kind: job.kind.into_owned(), problem });
        }
        keyed(job, options, &rules, unique.as_deref())
    }
}
