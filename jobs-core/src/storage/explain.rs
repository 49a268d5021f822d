//! What a storage reads about a job to explain why it does not run.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::{HaltedSequence, LimitSetting, RunningJob, StorageResult};
use crate::installation::Freeze;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::rules::{Bucket, JobRule, Rule};

/// A session or prepared transaction that has locked the row of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowLock {
    /// The process of the session. `None`: it is a prepared transaction.
    pub pid: Option<i32>,
    /// The name of the session's application, or of the prepared transaction.
    pub name: String,
    /// Since when the transaction is open. `None` if this role may not see it.
    pub since: Option<DateTime<Utc>>,
}

/// What a held job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldBy {
    /// The rule for which it waits, as the code says. If it has several: its sequence, or the first one.
    pub rule: JobRule,
    /// What an operator has set instead of its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<LimitSetting>,
    /// How many permits of its key are taken.
    pub taken: u64,
    /// Some of the jobs that have these permits.
    pub holders: Vec<JobId>,
    /// How many due jobs of its key come before it, up to [`MOST_AHEAD`] and one more. In a sequence, those that are
    /// not due are counted, too. If it has a tenant, only jobs of this tenant are counted.
    pub ahead: u32,
    /// The job whose turn it is in its sequence, while that job waits.
    pub next: Option<JobId>,
    /// When its sequence was halted, and by which job.
    pub halted: Option<(DateTime<Utc>, JobId)>,
    /// If it waits for a token of its rate.
    pub tokens: Option<Tokens>,
    /// If it has a tenant: how many other tenants wait for the key, up to [`MOST_TENANTS`] and one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_tenants: Option<u32>,
    /// If it has several rules: each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub several: Vec<HeldBy>,
    /// The database's time.
    #[serde(skip)]
    pub now: DateTime<Utc>,
}

/// When tokens come for a job with a rate. If a time has passed, there is a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// When the next token of its key comes.
    pub next: DateTime<Utc>,
    /// When the token for this job comes, if no new job comes before it.
    pub own: DateTime<Utc>,
}

impl Tokens {
    /// The times for a job, if `ahead` jobs of its key come before it. The key has all its tokens in `lack`
    /// microseconds. `None` if the rule is no rate.
    pub fn of(rule: Rule, lack: i64, ahead: u32, now: DateTime<Utc>) -> Option<Self> {
        let bucket = Bucket::of(rule, lack)?;
        let at = |ahead| {
            let wait = TimeDelta::microseconds(bucket.wait(ahead));
            now.checked_add_signed(wait).unwrap_or(DateTime::<Utc>::MAX_UTC)
        };
        Some(Self { next: at(0), own: at(i64::from(ahead)) })
    }
}

impl HeldBy {
    /// How many jobs of its key may run at once, if it waits for a limit.
    pub fn most(&self) -> u32 {
        self.set.as_ref().map_or_else(|| self.rule.rule.most().unwrap_or(1), |set| set.most)
    }
}

/// What a storage has read about a job and its queue, at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The database's time.
    pub now: DateTime<Utc>,
    /// The highest id of all jobs that are stored.
    pub highest: Option<JobId>,
    /// The freeze, while the database is frozen.
    pub frozen: Option<Freeze>,
    /// Why the job was set apart as a dead letter, and when.
    pub dead_letter: Option<(String, DateTime<Utc>)>,
    /// Who has locked the row.
    pub lock: Option<RowLock>,
    /// How many due jobs of its queue come before it, up to [`MOST_AHEAD`] and one more.
    pub ahead: u32,
    /// Jobs of its queue that run now, the oldest claims first, at most [`MOST_SHOWN`].
    pub running: Vec<RunningJob>,
    /// How many run in its queue.
    pub running_count: u64,
    /// How many jobs of any queue run in each worker.
    pub busy: Vec<(WorkerId, u64)>,
    /// What a held job waits for.
    pub held: Option<HeldBy>,
    /// The sequence that it halts, because it was discarded. The job may have been deleted since.
    pub halts: Option<HaltedSequence>,
    /// When it expires, if its first attempt has not started.
    pub start_by: Option<DateTime<Utc>>,
}

/// Jobs that come before a job are counted up to this number.
pub const MOST_AHEAD: u32 = 1000;
/// Tenants that take turns with that of a job are counted up to this number.
pub const MOST_TENANTS: u32 = 100;
/// The most running jobs that are named.
pub const MOST_SHOWN: usize = 5;

/// Reads what explains why a job does not run.
#[async_trait]
pub trait Explain: Send + Sync + 'static {
    /// Reads what explains why this job does not run. It reads a bounded number of rows.
    async fn surroundings(&self, id: JobId) -> StorageResult<Surroundings>;
}
