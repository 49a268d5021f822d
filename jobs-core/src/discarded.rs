//! The job that is enqueued when a job is discarded: its argument, and the rule that the database stores for each kind.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::context::JobContext;
use crate::error::{Failure, FailureKind};
use crate::job_builder::JobBuilder;
use crate::job_id::JobId;
use crate::new_job::{IntoNewJob, InvalidJob, MAX_ARGS_BYTES, NewJob, RunAt};
use crate::panics;
use crate::rules::{JobRule, Rules};

/// A job that was discarded. The job that `on_discarded` names takes it as an argument.
///
/// It contains no arguments of the discarded job, because they may be secret. Read them by `id` from the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// The id of the discarded job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// The number of its last attempt.
    pub attempt: u16,
    /// How many attempts it had.
    pub max_attempts: u16,
    /// How the last attempt failed.
    pub failure: FailureKind,
    /// The message of that failure, as it is stored with the job.
    pub error: String,
}

impl Discarded {
    /// Describes the running job, if this failure discards it.
    #[doc(hidden)]
    pub fn new(ctx: &JobContext, failure: &Failure) -> Self {
        Self {
            id: ctx.id(),
            kind: ctx.kind().to_owned(),
            queue: ctx.queue().to_owned(),
            attempt: ctx.attempt(),
            max_attempts: ctx.max_attempts(),
            failure: failure.kind,
            error: failure.message.clone(),
        }
    }
}

/// Makes the job that is enqueued for a discarded one.
pub type OnDiscarded = fn(Discarded) -> JobBuilder;

/// What is enqueued when a job of a kind is discarded, as it is stored. The database fills in the discarded job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardRule {
    /// The kind of the discarded job.
    pub kind: String,
    /// The kind of the job that is enqueued.
    pub enqueues: String,
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i16,
    /// How many attempts it has.
    pub max_attempts: u16,
    /// Its arguments as a JSON object, without the discarded job.
    pub args: String,
    /// The name of the argument that gets the discarded job.
    pub argument: String,
    /// The rules that decide when it may start. They are the same for all discarded jobs.
    #[serde(deserialize_with = "rules")]
    pub rules: Rules,
    /// How long after the discard its first attempt may start.
    pub expires: Option<Duration>,
}

fn rules<'de, D: Deserializer<'de>>(stored: D) -> Result<Rules, D::Error> {
    Rules::new(Vec::<JobRule>::deserialize(stored)?).map_err(D::Error::custom)
}

/// Why the job of `on_discarded` cannot be stored as a rule.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDiscardRule {
    /// No job can be made.
    #[error(transparent)]
    Job(#[from] InvalidJob),
    /// `new` panicked.
    #[error("its `new`, called with an example, {0}")]
    Panicked(String),
    /// The arguments do not contain the discarded job.
    #[error(
        "its arguments are {0}, and none of them is the `Discarded` that its `new` was given: keep that as one argument"
    )]
    NoArgument(String),
    /// `new` uses the `Discarded` for other arguments. They would have the same values for every discarded job.
    #[error(
        "its `new` uses the `Discarded` for more than the argument `{0}`, or returns something else at each call: the job is stored \
         once for all discarded jobs, so take the values from the argument when the job runs"
    )]
    Varies(String),
    /// With a long error the arguments would exceed the limit.
    #[error("its arguments take {0} bytes without the discarded job, the limit is {MAX_BYTES}")]
    TooLarge(usize),
    /// A delay or a time would be lost.
    #[error("it must be due at once: leave `delay` and `run_at` out")]
    NotAtOnce,
    /// Tags would be lost.
    #[error("it must have no tags")]
    Tags,
    /// An enqueue with a unique key waits for other transactions with this key, and the discard would wait with it.
    #[error(
        "it must not be unique: a worker that discards a job would wait for every open transaction that has enqueued the same unique \
         key; let the job of `on_discarded` enqueue the unique job when it runs"
    )]
    Unique,
    /// The key or the tenant of this rule is made of the discarded job. It would be that of the example for all
    /// discarded jobs.
    #[error(
        "the key or the tenant of its rule `{0}` is made of the `Discarded`, or differs at each call: the job is stored once for all \
         discarded jobs, so make the key of other arguments, or let the job of `on_discarded` enqueue a job with this key when it runs"
    )]
    Key(String),
}

crate::debug_as_display!(InvalidDiscardRule);

/// The arguments, each as its text: `serde_json::Value` keeps no number beyond 64 bits.
type Fields = BTreeMap<String, Box<RawValue>>;

/// The limit for the arguments without the discarded job. An error of 8 KiB takes up to 48 KiB as JSON, and the two
/// names up to 2.4 KiB. If the database refused the arguments, it would refuse the discard, too.
const MAX_BYTES: usize = MAX_ARGS_BYTES - 64 * 1024;

impl DiscardRule {
    /// The rule for jobs of this kind. Makes a job for an example, and finds the example in its arguments. A second
    /// example must give the same rule.
    pub fn new(kind: &str, on_discarded: OnDiscarded) -> Result<Self, InvalidDiscardRule> {
        let example = Discarded {
            id: JobId(i64::MAX),
            kind: kind.to_owned(),
            queue: "the queue of the discarded job".to_owned(),
            attempt: u16::MAX,
            max_attempts: u16::MAX,
            failure: FailureKind::Error,
            error: "the message of its last failure".to_owned(),
        };
        let other = Discarded {
            // Divided by a small number, the two ids leave different remainders. So a key such as `id % 8` is noticed.
            id: JobId(6),
            kind: kind.to_owned(),
            queue: "another queue".to_owned(),
            attempt: 1,
            max_attempts: 2,
            failure: FailureKind::Crash,
            error: "another message".to_owned(),
        };
        let rule = Self::of_example(kind, on_discarded, example)?;
        match Self::of_example(kind, on_discarded, other) {
            Ok(other) if other == rule => {}
            Ok(other) => return Err(rule.varies(&other)),
            Err(panicked @ InvalidDiscardRule::Panicked(_)) => return Err(panicked),
            Err(_) => return Err(InvalidDiscardRule::Varies(rule.argument)),
        }
        if rule.args.len() > MAX_BYTES {
            return Err(InvalidDiscardRule::TooLarge(rule.args.len()));
        }
        Ok(rule)
    }

    fn of_example(kind: &str, on_discarded: OnDiscarded, example: Discarded) -> Result<Self, InvalidDiscardRule> {
        let job = panics::caught_call(|| on_discarded(example.clone()).into_new_job())
            .map_err(|panicked| InvalidDiscardRule::Panicked(panicked.to_string()))??;
        // First, because a debounced job is due later and a job that runs again is in a sequence.
        if job.unique.is_some() {
            return Err(InvalidDiscardRule::Unique);
        }
        if job.run_at != RunAt::Now {
            return Err(InvalidDiscardRule::NotAtOnce);
        }
        if !job.tags.is_empty() {
            return Err(InvalidDiscardRule::Tags);
        }
        let NewJob { kind: enqueues, queue, priority, max_attempts, args, rules, expires, .. } = job;
        let mut fields: Fields = match serde_json::from_str(&args) {
            Ok(fields) => fields,
            Err(_) => return Err(InvalidDiscardRule::NoArgument(args)),
        };
        let is_example =
            |value: &RawValue| serde_json::from_str(value.get()).is_ok_and(|found: Discarded| found == example);
        let Some(argument) = fields.iter().find(|(_, value)| is_example(value)).map(|(name, _)| name.clone()) else {
            return Err(InvalidDiscardRule::NoArgument(args));
        };
        fields.remove(&argument);
        let Ok(other_args) = serde_json::to_string(&fields) else { return Err(InvalidDiscardRule::NoArgument(args)) };
        Ok(Self {
            kind: kind.to_owned(),
            enqueues: enqueues.into_owned(),
            queue: queue.into_owned(),
            priority,
            max_attempts,
            args: other_args,
            argument,
            rules,
            // As finely as it is stored, so that the two are equal.
            expires: expires.map(|expires| expires - Duration::from_nanos(u64::from(expires.subsec_nanos() % 1000))),
        })
    }

    /// In what two rules of the same code differ.
    fn varies(&self, other: &Self) -> InvalidDiscardRule {
        let differs = self.rules.iter().zip(other.rules.iter()).find(|(one, other)| one != other);
        match differs {
            Some((rule, _)) if self.args == other.args => InvalidDiscardRule::Key(rule.name.clone()),
            _ => InvalidDiscardRule::Varies(self.argument.clone()),
        }
    }

    /// The job for this discarded one.
    pub fn job(&self, discarded: &Discarded) -> Result<NewJob, serde_json::Error> {
        let mut args: Fields = serde_json::from_str(&self.args)?;
        args.insert(self.argument.clone(), to_raw_value(discarded)?);
        let mut job = NewJob::raw(self.enqueues.clone(), serde_json::to_string(&args)?);
        (job.queue, job.priority) = (self.queue.clone().into(), self.priority);
        job.max_attempts = self.max_attempts;
        (job.rules, job.expires) = (self.rules.clone(), self.expires);
        Ok(job)
    }
}

#[cfg(test)]
mod tests;
