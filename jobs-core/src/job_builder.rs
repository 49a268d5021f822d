//! What an enqueue can say about one job, instead of its kind.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::instant::IntoInstant;
use crate::job_options::JobOptions;
use crate::limit::{Limit, LimitProblem, OwnRule, Rate, Rules, Sequence};
use crate::new_job::{IntoNewJob, InvalidJob, NewJob, RunAt};
use crate::unique::{Unique, UniqueProblem};

/// One job with some of its kind's defaults overridden. Made by the methods of [`Job`](crate::Job).
///
/// Its type does not contain the job's type. So jobs of several kinds fit into one `Vec` for `enqueue_all`:
/// `vec![SendWelcome { user_id: 1 }.into(), Reindex.priority(-5)]`.
#[derive(Debug)]
#[must_use = "a job does nothing until it is enqueued"]
pub struct JobBuilder {
    job: NewJob,
    encode_error: Option<serde_json::Error>,
    options: &'static JobOptions,
    rules: Vec<OwnRule>,
    unique: Option<Box<Unique>>,
    /// The arguments come from the rows of a query.
    is_of_rows: bool,
}

impl JobBuilder {
    /// The options are a reference, because each job of a bulk would copy them.
    pub(crate) fn of(kind: &'static str, options: &'static JobOptions, args: &impl Serialize) -> Self {
        let (args, encode_error) = match serde_json::to_string(args) {
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
        Self { job, encode_error, options, rules: Vec::new(), unique, is_of_rows: false }
    }

    pub(crate) fn of_rows(mut self) -> Self {
        self.is_of_rows = true;
        self
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

    /// See [`Job::expires_in`](crate::Job::expires_in).
    pub fn expires_in(mut self, time: Duration) -> Self {
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
        let Self { mut job, encode_error, options, rules, unique, is_of_rows } = self;
        if let Some(problem) = encode_error {
            return Err(InvalidJob::Encode { kind: job.kind.into_owned(), problem });
        }
        if job.expires.is_some() && is_of_rows {
            return Err(InvalidJob::ExpiresOfRows { kind: job.kind.into_owned() });
        }
        if let Some(rule) = unique {
            if is_of_rows {
                return Err(InvalidJob::Unique { kind: job.kind.into_owned(), problem: UniqueProblem::OfRows });
            }
            job = job.unique(*rule)?;
        }
        // Those of the enqueue replace those of the kind of the same sort.
        let of_kind = options.rules.iter().filter(|of_kind| !rules.iter().any(|own| own.is_same_sort(of_kind)));
        if rules.is_empty() && of_kind.clone().next().is_none() {
            return job.into_new_job();
        }
        job.refuse_two_limits(job.runs_again())?;
        job.refuse_deep_args()?;
        let all = if is_of_rows {
            Err(LimitProblem::OfRows)
        } else {
            Rules::of(of_kind.map(|rule| rule.of(&job.args)).chain(rules.iter().cloned().map(OwnRule::of)))
        };
        job.rules = all.map_err(|problem| InvalidJob::Limit { kind: job.kind.to_string(), problem })?;
        job.into_new_job()
    }
}
