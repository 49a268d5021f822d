//! What operators read about limits: how many jobs each of them holds back, and which keys are full.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::StorageResult;
use super::page::Count;
use crate::job_id::JobId;
use crate::rules::{Rule, period_text};

/// Jobs and permits of a limit, and held jobs of a key, are counted up to this number.
pub const COUNTED_OF_LIMIT: u64 = 1000;
/// This many limits are listed.
pub const MOST_LIMITS: usize = 50;

/// A limit, over all its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitStats {
    /// The name. It is empty for jobs with several limits that wait in a lane behind the first job.
    pub name: String,
    /// Jobs that only this limit holds back: they are due, and neither their queue nor their kind is paused.
    pub held: Count,
    /// Its jobs that are available or running. Each has a permit.
    pub permits: Count,
    /// Whether it is a sequence, whose number cannot be changed. Jobs of sequences are not among `held`.
    pub is_sequence: bool,
}

/// A key that holds jobs back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitKey {
    /// The name of the limit.
    pub name: String,
    /// The key.
    pub key: String,
    /// How many of its jobs may run at once, as an operator has set, else as its next job says.
    pub most: u32,
    /// How many permits of the key are taken.
    pub taken: u64,
    /// Some of the jobs that have them, at most [`MOST_SHOWN`](super::MOST_SHOWN).
    pub holders: Vec<JobId>,
    /// Jobs that only this limit holds back.
    pub held: Count,
    /// Since when the oldest of these has been due.
    pub oldest: Option<DateTime<Utc>>,
}

impl LimitKey {
    /// Whether all its permits are taken.
    pub fn is_full(&self) -> bool {
        self.taken >= u64::from(self.most)
    }
}

/// A key with a rate, for whose tokens jobs wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RateKey {
    /// The name of the rate.
    pub name: String,
    /// The key.
    pub key: String,
    /// What its next job says: how many may start in which period, and how many at once.
    pub rule: Rule,
    /// Jobs that only this rate holds back.
    pub held: Count,
    /// Since when the oldest of these has been due.
    pub oldest: Option<DateTime<Utc>>,
    /// When admission gives out the next token. `None`: in its next pass.
    pub next_token: Option<DateTime<Utc>>,
}

impl RateKey {
    /// How many jobs may start in which period, and how many at once.
    pub fn starts(&self) -> String {
        match self.rule {
            Rule::Rate { limit, per, burst, .. } => format!("{limit} in {}, {burst} at once", period_text(per)),
            _ => String::new(),
        }
    }
}

/// The name of a limit and a key of it, after which a list continues.
pub type AfterKey = (String, String);

/// What operators read about limits. Every operation reads a bounded number of rows.
#[async_trait]
pub trait ReadLimits: Send + Sync + 'static {
    /// The limits that hold jobs back or have permits taken, by name, at most [`MOST_LIMITS`].
    async fn limits(&self) -> StorageResult<Vec<LimitStats>>;

    /// The keys that hold jobs back, in the order of name and key, after this one. At most `limit`.
    async fn limit_keys(&self, after: Option<AfterKey>, limit: usize) -> StorageResult<Vec<LimitKey>>;

    /// The keys with a rate that hold jobs back, in the order of name and key, after this one. At most `limit`.
    async fn rate_keys(&self, after: Option<AfterKey>, limit: usize) -> StorageResult<Vec<RateKey>>;
}
