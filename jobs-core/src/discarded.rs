//! The job that is enqueued when a job is discarded: its argument, and the rule that the database stores for each kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::context::JobContext;
use crate::error::{Failure, FailureKind};
use crate::job_builder::JobBuilder;
use crate::job_id::JobId;
use crate::new_job::{IntoNewJob, InvalidJob, MAX_ARGS_BYTES, NewJob, RunAt};
use crate::panics;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The key would be lost.
    #[error("it must not be unique: `unique` is not applied to jobs that are enqueued for discarded ones")]
    Unique,
    /// A limit would be lost.
    #[error("it must have no limit: `concurrency` is not applied to jobs that are enqueued for discarded ones")]
    Limit,
    /// The time in which it must start would be lost.
    #[error("it must not expire: `expires` is not applied to jobs that are enqueued for discarded ones")]
    Expires,
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
            id: JobId(1),
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
            Err(panicked @ InvalidDiscardRule::Panicked(_)) => return Err(panicked),
            _ => return Err(InvalidDiscardRule::Varies(rule.argument)),
        }
        if rule.args.len() > MAX_BYTES {
            return Err(InvalidDiscardRule::TooLarge(rule.args.len()));
        }
        Ok(rule)
    }

    fn of_example(kind: &str, on_discarded: OnDiscarded, example: Discarded) -> Result<Self, InvalidDiscardRule> {
        let job = panics::caught_call(|| on_discarded(example.clone()).into_new_job())
            .map_err(|panicked| InvalidDiscardRule::Panicked(panicked.to_string()))??;
        if job.run_at != RunAt::Now {
            return Err(InvalidDiscardRule::NotAtOnce);
        }
        if !job.tags.is_empty() {
            return Err(InvalidDiscardRule::Tags);
        }
        if job.unique.is_some() {
            return Err(InvalidDiscardRule::Unique);
        }
        if !job.rules.is_empty() {
            return Err(InvalidDiscardRule::Limit);
        }
        if job.expires.is_some() {
            return Err(InvalidDiscardRule::Expires);
        }
        let NewJob { kind: enqueues, queue, priority, max_attempts, args, .. } = job;
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
        })
    }

    /// The job for this discarded one.
    pub fn job(&self, discarded: &Discarded) -> Result<NewJob, serde_json::Error> {
        let mut args: Fields = serde_json::from_str(&self.args)?;
        args.insert(self.argument.clone(), to_raw_value(discarded)?);
        let mut job = NewJob::raw(self.enqueues.clone(), serde_json::to_string(&args)?);
        (job.queue, job.priority) = (self.queue.clone().into(), self.priority);
        job.max_attempts = self.max_attempts;
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Alert {
        discarded: Discarded,
    }

    impl crate::Job for Alert {
        const KIND: &'static str = "alert";
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Ticket {
        account: u128,
        about: Discarded,
    }

    impl crate::Job for Ticket {
        const KIND: &'static str = "ticket";
    }

    #[test]
    fn no_digit_of_another_argument_is_lost() {
        let account = u128::from(u64::MAX) + 2;
        let ticket: OnDiscarded = |about| JobBuilder::new(Ticket { account: u128::from(u64::MAX) + 2, about });
        let rule = DiscardRule::new("charge", ticket).unwrap();
        assert_eq!((&*rule.args, &*rule.argument), (r#"{"account":18446744073709551617}"#, "about"));
        let about = Discarded {
            id: JobId(7),
            kind: "charge".to_owned(),
            queue: "default".to_owned(),
            attempt: 1,
            max_attempts: 1,
            failure: FailureKind::Error,
            error: "never".to_owned(),
        };
        let job = rule.job(&about).unwrap();
        assert_eq!(serde_json::from_str::<Ticket>(&job.args).unwrap(), Ticket { account, about });
    }

    #[test]
    fn a_panic_of_new_is_an_error_that_says_so() {
        let always: OnDiscarded = |_| panic!("no pager");
        let problem = DiscardRule::new("charge", always).unwrap_err();
        assert!(matches!(&problem, InvalidDiscardRule::Panicked(_)), "{problem}");
        let text = problem.to_string();
        assert!(
            text.starts_with("its `new`, called with an example, panicked") && text.ends_with(": no pager"),
            "{text}"
        );
        let at_the_second: OnDiscarded = |discarded| {
            assert!(discarded.attempt > 1, "a first attempt");
            JobBuilder::new(Alert { discarded })
        };
        let problem = DiscardRule::new("charge", at_the_second).unwrap_err().to_string();
        assert!(problem.ends_with(": a first attempt"), "{problem}");
    }
}
