//! Admission: moves held jobs to the available ones, as far as their limits allow it.

use std::time::Duration;

use async_trait::async_trait;

use super::{Claim, StorageResult};

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
    /// There were held jobs.
    pub holds: bool,
    /// How many jobs the database has refused to make available. They do not wait any more.
    pub refused: usize,
    /// The time until the next token comes for which a held job waits.
    pub next_token: Option<Duration>,
}

/// What a database does for limits.
#[async_trait]
pub trait Limits: Send + Sync {
    /// A pass of admission, for keys of which a transaction has said that a slot is free or a job is new. `sweeps`: also for keys
    /// whose jobs have become due, and for others, in turns. One session of the database admits at a time, and it never waits.
    async fn admit(&self, sweeps: bool) -> StorageResult<Admission>;

    /// Returns the time until the first held job of these queues and kinds is due, and zero if one is due. `None` if there is none.
    /// Only workers that run until nothing is left ask for it.
    async fn next_held(&self, claim: &Claim) -> StorageResult<Option<Duration>>;
}
