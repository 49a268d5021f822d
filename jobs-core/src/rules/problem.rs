//! What can be wrong with the rules of a job.

use super::rule::{MOST_BURST, MOST_OF_RATE};
use super::{LONGEST_KEY, MOST_AT_ONCE, MOST_RULES};
use crate::key_problem::KeyProblem;

/// What is wrong with the rules of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleProblem {
    /// The number is not allowed.
    #[error("a limit allows 1 to {MOST_AT_ONCE} jobs at once, not {0}")]
    Number(u32),
    /// The name is not allowed.
    #[error("the name of a rule has 1 to {LONGEST_KEY} bytes and no NUL character")]
    Name,
    /// The values cannot be a key.
    #[error(transparent)]
    Key(#[from] KeyProblem),
    /// The value of a key cannot be written as JSON.
    #[error("the value of its key cannot be written as JSON: {0}")]
    Unserializable(String),
    /// The key that is stored with a job is not allowed.
    #[error(
        "the key of a rule is stored as a list of values in JSON of at most {LONGEST_KEY} bytes, or as `sha256:` and its hash"
    )]
    StoredKey,
    /// The job has too many rules.
    #[error("a job has at most {MOST_RULES} rules, not {0}")]
    TooMany(usize),
    /// Two rules have the same name.
    #[error("two of its rules have the name `{0}`; give each one a name of its own")]
    Twice(String),
    /// The job has two sequences.
    #[error("a job is in one sequence at most")]
    Sequences,
    /// A job with several rules, or in a sequence, has `on_full`.
    #[error("`on_full` is for a job with one limit or rate; a job with several of them, or with a sequence, waits")]
    OnFullOfSeveral,
    /// A rate has the rule `cancel_oldest`.
    #[error("`on_full` of a rate is to wait or to discard: cancelling a job frees no token")]
    CancelForToken,
    /// A job with tenants has another rule.
    #[error("`fair` is for jobs with one `concurrency` and no other rule; leave out the other rules or `fair`")]
    FairOfSeveral,
    /// A job with a tenant has `on_full`.
    #[error(
        "`fair` is for jobs that wait for their limit, and with this `on_full` they do not wait; leave out `on_full` or `fair`"
    )]
    FairOnFull,
    /// The number of a rate is not allowed.
    #[error("a rate allows 1 to {MOST_OF_RATE} starts in its time, not {0}")]
    Starts(u32),
    /// The burst of a rate is not allowed.
    #[error("the burst of a rate is from 1 to {MOST_BURST}, not {0}")]
    Burst(u32),
    /// The time of a rate is not allowed.
    #[error("the time of a rate is at least a millisecond and at most 366 days")]
    Per,
    /// The tokens of a full burst take too long to come.
    #[error("the tokens of the burst of a rate must come within a hundred years")]
    SlowBurst,
    /// The rate is too high.
    #[error("a rate allows at most 10000 starts in a second")]
    TooFast,
}
