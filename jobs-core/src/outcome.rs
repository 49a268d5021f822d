//! What a handler may return, how an attempt may end, and the pure function that decides on the job's transition.

use std::time::Duration;

use crate::error::{Failure, FailureKind, JobError};
use crate::flags::JobFlags;
use crate::job_options::{JobOptions, Retain};
use crate::lease::{ClaimedJob, Lease};
use crate::output::Output;
use crate::retry;

/// What a handler returns if the attempt did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job completes.
    Complete,
    /// The job completes with an output. The `T` of a handler that returns `Result<T, E>` is converted to this variant.
    CompleteWith(Output),
    /// The job runs again after this time. The run does not count as an attempt.
    Snooze(Duration),
    /// The job is no longer needed. It ends as `cancelled`, with this reason.
    Cancel(String),
}

/// The result of a handler, converted from the handler's return type.
pub type Handled = Result<Outcome, JobError>;

/// How long a finished job stays readable. Exhaustive, so that no statement of a storage misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Its row is deleted at the completion.
    Nothing,
    /// For this long.
    For(Duration),
    /// Until an operator deletes it.
    Forever,
}

/// How long ended jobs stay readable. The `retain` of a kind overrides it for completed jobs, and a retention that
/// operators set at run time overrides both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Completed jobs. Default: 24 hours.
    pub completed: Duration,
    /// Cancelled jobs. Default: 30 days.
    pub cancelled: Duration,
    /// Discarded jobs. Default: 30 days.
    pub discarded: Duration,
}

/// How long ended jobs of one kind stay readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Completed jobs.
    pub completed: Keep,
    /// Cancelled jobs.
    pub cancelled: Keep,
    /// Discarded jobs.
    pub discarded: Keep,
}

impl Retention {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
    pub(crate) const DEFAULT: Self = Self { completed: Self::DAY, cancelled: Self::MONTH, discarded: Self::MONTH };

    /// What follows for a kind with this `retain`.
    pub fn kept(self, retain: Retain) -> Kept {
        Kept {
            completed: retain.keep(self),
            cancelled: Keep::For(self.cancelled),
            discarded: Keep::For(self.discarded),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Retain {
    /// How long a completed job of this kind stays readable.
    fn keep(self, retention: Retention) -> Keep {
        match self {
            Self::Default => Keep::For(retention.completed),
            Self::None => Keep::Nothing,
            Self::For(time) => Keep::For(time),
            Self::Forever => Keep::Forever,
        }
    }
}

/// How a finish changes a running job. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// `running` → `completed`, or deleted if it is not kept.
    Complete(Keep),
    /// `running` → `completed`, with the output stored.
    CompleteWith(Keep, Output),
    /// `running` → `retrying`, and `available` after `delay`. The failure is recorded.
    Retry {
        /// How long it waits.
        delay: Duration,
        /// What failed.
        failure: Failure,
    },
    /// `running` → `scheduled` (or `retrying`, if it has failed before), and `available` after this time. The attempt
    /// is not consumed.
    Snooze(Duration),
    /// `running` → `available`, with its old `run_at`. The attempt is not consumed.
    Release,
    /// `running` → `cancelled`, with the reason recorded.
    Cancel {
        /// The reason that the handler gave.
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
    /// The name of the transition in the log.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Complete(_) | Self::CompleteWith(..) => "complete",
            Self::Retry { .. } => "retry",
            Self::Snooze(_) => "snooze",
            Self::Release => "release",
            Self::Cancel { .. } => "cancel",
            Self::Discard { .. } => "discard",
        }
    }

    /// The same transition without its output.
    pub fn without_output(&self) -> Self {
        match self {
            Self::CompleteWith(keep, _) => Self::Complete(*keep),
            other => other.clone(),
        }
    }

    /// The output that it stores, if any. A job that is not kept has none.
    pub const fn output(&self) -> Option<&Output> {
        match self {
            Self::CompleteWith(Keep::For(_) | Keep::Forever, output) => Some(output),
            _ => None,
        }
    }

    /// The handler's result that led to this transition. `None` after a release. It contains an output only if the
    /// output is stored. An error has the stored text, without its causes.
    pub(crate) fn handled(&self) -> Option<Handled> {
        Some(match self {
            Self::Complete(_) => Ok(Outcome::Complete),
            Self::CompleteWith(_, output) => Ok(Outcome::CompleteWith(output.clone())),
            Self::Snooze(delay) => Ok(Outcome::Snooze(*delay)),
            Self::Cancel { reason, .. } => Ok(Outcome::Cancel(reason.message.clone())),
            Self::Retry { failure, .. } => Err(JobError::of_failure(failure)),
            Self::Discard { failure, .. } => Err(JobError::of_failure(failure).fatal()),
            Self::Release => return None,
        })
    }

    /// The failure or reason it records, if any.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Retry { failure, .. } | Self::Discard { failure, .. } => Some(failure),
            Self::Cancel { reason, .. } => Some(reason),
            Self::Complete(_) | Self::CompleteWith(..) | Self::Snooze(_) | Self::Release => None,
        }
    }
}

/// One fenced write: the lease that it names, the flags of the job, and the transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The lease. If it is lost, the finish changes nothing.
    pub lease: Lease,
    /// The flags of the claimed job, by which the storage chooses the statement. With other flags, a permit or a key
    /// would not be given back.
    pub flags: JobFlags,
    /// How the job changes.
    pub transition: Transition,
}

impl Finish {
    /// The finish of this claimed job.
    pub const fn new(job: &ClaimedJob, transition: Transition) -> Self {
        Self { lease: job.lease, flags: job.flags, transition }
    }

    /// The release of a job of which only the lease is known. A released job keeps its permits and keys, so its flags
    /// make no difference.
    pub fn release(lease: Lease) -> Self {
        Self { lease, flags: JobFlags::default(), transition: Transition::Release }
    }

    /// The same finish without its output.
    pub fn without_output(&self) -> Self {
        Self { transition: self.transition.without_output(), ..*self }
    }
}

/// The input of [`decide`], besides the handler's return value.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Which attempt ended, from 1.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
    /// The kind's options.
    pub options: &'a JobOptions,
    /// How long ended jobs of the kind are kept.
    pub kept: Kept,
}

/// Decides which transition follows the end of an attempt. `jitter` is at least 0 and less than 1.
///
/// ```
/// # use diesel_jobs_core::{Attempt, JobError, JobOptions, Outcome, Retain, Retention, Transition, decide};
/// let options = JobOptions::new();
/// let attempt = Attempt { attempt: 1, max_attempts: 2, options: &options, kept: Retention::default().kept(Retain::Default) };
/// let failed = || Err(JobError::msg("no answer"));
/// assert!(matches!(decide(attempt, failed(), 0.5), Transition::Retry { .. }));
/// assert!(matches!(decide(Attempt { attempt: 2, ..attempt }, failed(), 0.5), Transition::Discard { .. }));
/// ```
pub fn decide(attempt: Attempt<'_>, handled: Handled, jitter: f64) -> Transition {
    let kept = attempt.kept;
    match handled {
        Ok(Outcome::Complete) => Transition::Complete(kept.completed),
        Ok(Outcome::CompleteWith(output)) => match kept.completed {
            Keep::Nothing => Transition::Complete(Keep::Nothing),
            keep if output.is_null() => Transition::Complete(keep),
            keep => Transition::CompleteWith(keep, output),
        },
        Ok(Outcome::Snooze(delay)) => Transition::Snooze(delay),
        Ok(Outcome::Cancel(reason)) => {
            Transition::Cancel { reason: Failure::new(FailureKind::Cancelled, &reason), keep: kept.cancelled }
        }
        Err(error) => {
            let failure = error.to_failure();
            let undecodable = failure.kind == FailureKind::Undecodable;
            let last = if undecodable { retry::UNDECODABLE_ATTEMPTS } else { u16::MAX }.min(attempt.max_attempts);
            if error.is_fatal() || attempt.attempt >= last {
                return Transition::Discard { failure, keep: kept.discarded };
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
mod tests;
