//! What is wrong with a unique key.

use crate::rules::RuleProblem;

/// What is wrong with the unique key of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UniqueProblem {
    /// The arguments cannot be the key.
    #[error(transparent)]
    Key(#[from] RuleProblem),
    /// `replace` names nothing.
    #[error("`replace` of a unique job names what is replaced: the arguments, the time or the priority")]
    ReplacesNothing,
    /// The time is not allowed.
    #[error("`within` of a unique job is longer than 0 and at most a hundred years")]
    Within,
    /// The times are not allowed.
    #[error("`quiet` of a debounced job is longer than 0, and `max` is at least as long and at most a hundred years")]
    Debounce,
    /// A job that runs again has its key until it has ended.
    #[error("`run_again` waits for the end of the running job, so it cannot be combined with `until = \"started\"`")]
    RunAgainStarted,
    /// A job that runs again is in a sequence.
    #[error(
        "`run_again` makes a sequence of the jobs with the key, so the job can have no `concurrency`, `sequence` or `rate`"
    )]
    RunAgainLimited,
    /// Two jobs of one call have the same key, and the rule says `error`.
    #[error("two of the jobs have the unique key {0}")]
    Twice(String),
}
