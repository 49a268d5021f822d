//! The reasons for which a job cannot be stored. The text of each contains its cause, so the cause is not the
//! `source()`: a printed chain of causes contains it only once.

use super::{MAX_ARGS_BYTES, MAX_TAGS};
use crate::json_depth::MAX_DEPTH;
use crate::rules::RuleProblem;
use crate::unique::UniqueProblem;

/// Why a job was refused before anything was sent to the database. The caller's transaction is unchanged.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJob {
    /// The arguments cannot be encoded as JSON.
    #[error("job `{kind}`: its arguments cannot be written as JSON: {problem}")]
    Encode {
        /// The kind of the job.
        kind: String,
        /// The error of serde.
        problem: serde_json::Error,
    },
    /// The encoded arguments are too large.
    #[error(
        "job `{kind}`: its arguments take {bytes} bytes, the limit is {MAX_ARGS_BYTES}; store the data elsewhere and enqueue its key"
    )]
    TooLarge {
        /// The kind of the job.
        kind: String,
        /// The size of the encoded arguments.
        bytes: usize,
    },
    /// The encoded arguments are nested too deep.
    #[error(
        "job `{kind}`: its arguments are nested more than {MAX_DEPTH} levels deep, and no worker could read them; store the data elsewhere \
         and enqueue its key"
    )]
    TooDeep {
        /// The kind of the job.
        kind: String,
    },
    /// A name cannot be stored.
    #[error("job `{kind}`: the {what} {value:?} {problem}")]
    Name {
        /// The kind of the job.
        kind: String,
        /// Which name: `kind`, `queue` or `tag`.
        what: &'static str,
        /// The name as given.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// `max_attempts` is 0 or too large. A job with 0 attempts would never run.
    #[error("job `{kind}`: max_attempts must be from 1 to {}, not {given}", i16::MAX)]
    MaxAttempts {
        /// The kind of the job.
        kind: String,
        /// The value given.
        given: u16,
    },
    /// Too many tags.
    #[error("job `{kind}`: {given} tags, the limit is {MAX_TAGS}")]
    Tags {
        /// The kind of the job.
        kind: String,
        /// How many were given.
        given: usize,
    },
    /// The job would be due too far in the future.
    #[error("job `{kind}`: it would start more than a hundred years from now")]
    TooFarAhead {
        /// The kind of the job.
        kind: String,
    },
    /// The time in which it must start is not allowed.
    #[error("job `{kind}`: it expires in at least a millisecond and at most a hundred years after it is due")]
    Expires {
        /// The kind of the job.
        kind: String,
    },
    /// Its limit cannot be stored.
    #[error("job `{kind}`: {problem}")]
    Limit {
        /// The kind of the job.
        kind: String,
        /// What is wrong with it.
        problem: RuleProblem,
    },
    /// Its unique key cannot be stored.
    #[error("job `{kind}`: {problem}")]
    Unique {
        /// The kind of the job.
        kind: String,
        /// What is wrong with it.
        problem: UniqueProblem,
    },
    /// It has no unique key, by which a job could be found.
    #[error(
        "job `{kind}` has no unique key, by which a job could be found: give it one with `unique(..)`, or give the id or a tag of the job"
    )]
    NotUnique {
        /// The kind of the job.
        kind: String,
    },
}

crate::debug_as_display!(InvalidJob);
