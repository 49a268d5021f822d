//! What a handler may answer, how an attempt may end, and the pure decision what becomes of the job.

use std::time::Duration;

use crate::error::{Failure, FailureKind, IntoJobError, JobError};
use crate::job_options::{JobOptions, Retain};
use crate::lease::Lease;
use crate::retry;

/// What a handler answers when nothing failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done.
    Complete,
    /// Not yet: run again after this long. Consumes no attempt.
    Snooze(Duration),
    /// Not any more: end as `cancelled` with this reason.
    Cancel(String),
}

/// What every handler comes down to.
pub type Handled = Result<Outcome, JobError>;

/// The return types a handler may have. `M` is inferred; see [`IntoJobError`](crate::error::IntoJobError).
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "not a job's return type",
    note = "return `()`, `Outcome`, `Result<(), E>` or `Result<Outcome, E>`",
    note = "where `E` is a `std::error::Error + Send + Sync + 'static`, `anyhow::Error`, `Box<dyn Error + Send + Sync>` or `JobError`"
)]
pub trait IntoHandled<M> {
    /// Brings the answer to its common form.
    fn into_handled(self) -> Handled;
}

impl IntoHandled<()> for () {
    fn into_handled(self) -> Handled {
        Ok(Outcome::Complete)
    }
}

impl IntoHandled<()> for Outcome {
    fn into_handled(self) -> Handled {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<E: IntoJobError<M>, M> IntoHandled<M> for Result<(), E> {
    fn into_handled(self) -> Handled {
        self.map(|()| Outcome::Complete).map_err(E::into_job_error)
    }
}

#[diagnostic::do_not_recommend]
impl<E: IntoJobError<M>, M> IntoHandled<M> for Result<Outcome, E> {
    fn into_handled(self) -> Handled {
        self.map_err(E::into_job_error)
    }
}

/// How long a finished job stays readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Its row goes with the completion.
    Nothing,
    /// For this long.
    For(Duration),
    /// Until somebody deletes it.
    Forever,
}

/// How long finished jobs stay readable where their kind does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Completed jobs. Default: 24 hours.
    pub completed: Duration,
    /// Cancelled and discarded jobs. Default: 30 days.
    pub failed: Duration,
}

impl Retention {
    pub(crate) const DEFAULT: Self =
        Self { completed: Duration::from_secs(24 * 3600), failed: Duration::from_secs(30 * 24 * 3600) };
}

impl Default for Retention {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Retain {
    /// How long a completed job of this kind stays readable.
    pub(crate) fn keep(self, retention: Retention) -> Keep {
        match self {
            Self::Default => Keep::For(retention.completed),
            Self::None => Keep::Nothing,
            Self::For(time) => Keep::For(time),
            Self::Forever => Keep::Forever,
        }
    }
}

/// Where a job under a lease goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// `running` → `completed`, or gone.
    Complete(Keep),
    /// `running` → `available` after `delay`, with the failure recorded.
    Retry {
        /// How long it waits.
        delay: Duration,
        /// What failed.
        failure: Failure,
    },
    /// `running` → `available` after this long; the attempt is not consumed.
    Snooze(Duration),
    /// `running` → `available` at its old place; the attempt is not consumed.
    Release,
    /// `running` → `cancelled`, with the reason recorded.
    Cancel {
        /// Why, in the handler's words.
        reason: Failure,
        /// How long it stays readable.
        keep: Keep,
    },
    /// `running` → `discarded`, with the failure recorded.
    Discard {
        /// What failed last.
        failure: Failure,
        /// How long it stays readable.
        keep: Keep,
    },
}

impl Transition {
    /// The verb, as logs and metrics name it.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Retry { .. } => "retry",
            Self::Snooze(_) => "snooze",
            Self::Release => "release",
            Self::Cancel { .. } => "cancel",
            Self::Discard { .. } => "discard",
        }
    }

    /// The failure or reason it records, if any.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Retry { failure, .. } | Self::Discard { failure, .. } => Some(failure),
            Self::Cancel { reason, .. } => Some(reason),
            Self::Complete(_) | Self::Snooze(_) | Self::Release => None,
        }
    }
}

/// One fenced write: the lease that asks for it, and where the job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The right to do it.
    pub lease: Lease,
    /// Where the job goes.
    pub transition: Transition,
}

/// What the decision needs to know about a job.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Which attempt ended, from 1.
    pub attempt: u16,
    /// Attempts the job has.
    pub max_attempts: u16,
    /// The kind's options.
    pub options: &'a JobOptions,
    /// The worker's retention.
    pub retention: Retention,
}

/// What becomes of a job whose attempt ended like this; `jitter` is from 0 up to but without 1.
///
/// ```
/// # use diesel_jobs_core::{Attempt, JobError, JobOptions, Outcome, Retention, Transition, decide};
/// let options = JobOptions::new();
/// let attempt = Attempt { attempt: 1, max_attempts: 2, options: &options, retention: Retention::default() };
/// let failed = || Err(JobError::msg("no answer"));
/// assert!(matches!(decide(attempt, failed(), 0.5), Transition::Retry { .. }));
/// assert!(matches!(decide(Attempt { attempt: 2, ..attempt }, failed(), 0.5), Transition::Discard { .. }));
/// ```
pub fn decide(attempt: Attempt<'_>, handled: Handled, jitter: f64) -> Transition {
    let failed = Keep::For(attempt.retention.failed);
    match handled {
        Ok(Outcome::Complete) => Transition::Complete(attempt.options.retain.keep(attempt.retention)),
        Ok(Outcome::Snooze(delay)) => Transition::Snooze(delay),
        Ok(Outcome::Cancel(reason)) => {
            Transition::Cancel { reason: Failure::new(FailureKind::Cancelled, &reason), keep: failed }
        }
        Err(error) => {
            let failure = error.to_failure();
            let undecodable = failure.kind == FailureKind::Undecodable;
            let last = if undecodable { retry::UNDECODABLE_ATTEMPTS } else { u16::MAX }.min(attempt.max_attempts);
            if error.is_fatal() || attempt.attempt >= last {
                return Transition::Discard { failure, keep: failed };
            }
            let delay = error.delay().unwrap_or_else(|| match undecodable {
                true => retry::undecodable_wait(attempt.attempt, jitter),
                false => attempt.options.backoff.wait(attempt.attempt, jitter),
            });
            Transition::Retry { delay, failure }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Backoff;

    fn options() -> JobOptions {
        JobOptions::new().backoff(Backoff::Fixed(Duration::from_secs(9)))
    }

    fn decided(attempt: u16, handled: Handled) -> Transition {
        let options = options();
        decide(Attempt { attempt, max_attempts: 3, options: &options, retention: Retention::default() }, handled, 0.5)
    }

    #[test]
    fn an_error_waits_for_the_backoff_until_attempts_are_used_up() {
        for attempt in 1..3 {
            let Transition::Retry { delay, failure } = decided(attempt, Err(JobError::msg("x"))) else { panic!() };
            assert_eq!((delay, failure.message.as_str()), (Duration::from_secs(9), "x"));
        }
        assert!(matches!(decided(3, Err(JobError::msg("x"))), Transition::Discard { .. }));
    }

    #[test]
    fn a_fatal_error_discards_at_once_and_retry_in_overrides_the_backoff() {
        assert!(matches!(decided(1, Err(JobError::msg("x").fatal())), Transition::Discard { .. }));
        let in_a_minute = JobError::msg("x").retry_in(Duration::from_secs(60));
        assert!(
            matches!(decided(1, Err(in_a_minute)), Transition::Retry { delay, .. } if delay == Duration::from_secs(60))
        );
    }

    #[test]
    fn retry_in_does_not_grant_further_attempts() {
        let in_a_minute = JobError::msg("x").retry_in(Duration::from_secs(60));
        assert!(matches!(decided(3, Err(in_a_minute)), Transition::Discard { .. }));
    }

    #[test]
    fn undecodable_arguments_have_few_attempts_that_outlast_a_deployment() {
        let undecodable = || JobError::of_kind(FailureKind::Undecodable, anyhow::Error::msg("x"));
        let decided = |attempt, max_attempts| {
            let options = options();
            let attempt = Attempt { attempt, max_attempts, options: &options, retention: Retention::default() };
            decide(attempt, Err(undecodable()), 0.0)
        };
        let mut waited = Duration::ZERO;
        for attempt in 1..5 {
            let Transition::Retry { delay, .. } = decided(attempt, 25) else { panic!("attempt {attempt}") };
            waited += delay;
        }
        assert!(waited > Duration::from_secs(3000), "{waited:?}");
        assert!(
            matches!(decided(5, 25), Transition::Discard { failure, .. } if failure.kind == FailureKind::Undecodable)
        );
        assert!(matches!(decided(2, 2), Transition::Discard { .. }), "a job's own limit holds, too");
    }

    #[test]
    fn snooze_and_cancel_pass_through_at_any_attempt() {
        assert_eq!(decided(3, Ok(Outcome::Snooze(Duration::ZERO))), Transition::Snooze(Duration::ZERO));
        assert!(
            matches!(decided(1, Ok(Outcome::Cancel("gone".into()))), Transition::Cancel { reason, .. } if reason.message == "gone")
        );
    }
}
