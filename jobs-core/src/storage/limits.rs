//! Admission: makes held jobs available when their limits allow it.

use std::time::Duration;

use async_trait::async_trait;

use super::{Claim, StorageResult};
use crate::outcome::Retention;
use crate::state::JobState;

/// What a pass of admission has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Another session admits at this moment, so nothing was done.
    pub is_busy: bool,
    /// How many jobs were admitted.
    pub admitted: usize,
    /// There is more to do at once.
    pub more: bool,
    /// A sweep has stopped before its end, so the next pass should sweep, too.
    pub sweep_again: bool,
    /// Whether there were held jobs. `None`: the pass did not look, because it did not sweep.
    pub holds: Option<bool>,
    /// How many jobs the database has refused to make available. They were set apart or discarded.
    pub refused: usize,
    /// How many jobs and keys admission leaves out for a while, because it has failed there. `worker doctor` says why.
    /// `None`: the pass did not look, because it did not sweep.
    pub failures: Option<i64>,
    /// The time until admission must look at a key again: the next token comes that a held job waits for, or a key that
    /// was left out is tried again.
    pub next_token: Option<Duration>,
    /// Waiting jobs have expired. Only a sweep searches for them.
    pub expired: bool,
    /// Jobs with [`OnFull`](crate::OnFull) are held. [`Limits::end_full`] checks whether their limit is full.
    pub may_be_full: bool,
}

/// A job that has expired while it waited, and is cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredJob {
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
}

/// The most jobs that [`Limits::expire`] cancels at once.
pub const MOST_EXPIRED: usize = 1000;

/// A job that has ended because its limit was full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedByLimit {
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Whether it is discarded or cancelled.
    pub state: JobState,
}

/// [`Limits::end_full`] ends about this many jobs at once.
pub const MOST_ENDED: usize = 1000;

/// What a database does for limits.
#[async_trait]
pub trait Limits: Send + Sync {
    /// A pass of admission, for keys with a nudge: a transaction has freed a permit or inserted a job. With `sweeps`,
    /// it also checks keys whose jobs have become due, and others, in turns. One session of the database admits at a
    /// time. If another one does, this returns at once.
    async fn admit(&self, sweeps: bool) -> StorageResult<Admission>;

    /// Cancels waiting jobs that have expired, at most [`MOST_EXPIRED`]. They are kept for the time `keep`. If a worker
    /// has claimed such a job, the worker cancels it.
    async fn expire(&self, keep: Duration) -> StorageResult<Vec<ExpiredJob>>;

    /// Ends due jobs that do not wait if their limit is full ([`OnFull`](crate::OnFull)). They are discarded, or the
    /// oldest jobs of their key are cancelled. It needs no lock of admission, because it skips as many jobs of each key
    /// as there are free permits or tokens.
    async fn end_full(&self, retention: Retention) -> StorageResult<Vec<EndedByLimit>>;

    /// Returns the time until the first held job of these queues and kinds is due, and zero if one is due. `None` if
    /// there is none. Only workers that run until nothing is left ask for it.
    async fn next_held(&self, claim: &Claim) -> StorageResult<Option<Duration>>;
}
