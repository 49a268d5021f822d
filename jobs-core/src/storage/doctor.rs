//! What is wrong with a database, and the statements that repair it.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::StorageResult;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Jobs do not run, or may be lost.
    Error,
    /// Jobs are late or the database becomes slow, now or soon.
    Warning,
    /// The check could not be made, for example because the role lacks a right.
    Skipped,
}

impl Severity {
    /// The name, as in the output of `worker doctor`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Skipped => "skipped",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check that has found it. The meaning of a name never changes.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// The statement, command or setting that repairs it.
    pub repair: String,
}

impl Finding {
    /// An error.
    pub fn error(check: &'static str, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { check, severity: Severity::Error, what: what.into(), repair: repair.into() }
    }

    /// A warning.
    pub fn warning(check: &'static str, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(check, what, repair) }
    }

    /// A check that could not be made.
    pub fn skipped(check: &'static str, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { severity: Severity::Skipped, ..Self::error(check, what, repair) }
    }
}

/// What counts as too late or too old.
#[derive(Clone, Copy, Debug)]
pub struct Objectives {
    /// A due job should not wait longer than this. Default: 5 minutes.
    pub oldest_due: Duration,
    /// A transaction should not be open longer than this. Default: 1 minute.
    pub transaction: Duration,
}

impl Default for Objectives {
    fn default() -> Self {
        Self { oldest_due: Duration::from_secs(300), transaction: Duration::from_secs(60) }
    }
}

/// What a worker of one program serves. The doctor compares waiting jobs and schedules with the live workers, and with
/// this program if no worker claims jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The queues that it serves, by name or by pattern.
    pub queues: BTreeSet<String>,
    /// The kinds that it has handlers for.
    pub kinds: BTreeSet<String>,
    /// Whether to compare as if this program had replaced all live workers, as a deploy does.
    pub replaces_workers: bool,
    /// Whether to compare with this program and with the live workers, as if it ran beside them.
    pub joins_workers: bool,
}

/// The jobs of a queue and kind that wait, also those that wait for their time or their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingJobs {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// How many.
    pub jobs: i64,
    /// How many of them are due and wait for no limit.
    pub due: i64,
    /// Since when the oldest of these waits.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// The doctor: its checks find what is wrong with a database. They change nothing.
#[async_trait]
pub trait Doctor: Send + Sync + 'static {
    /// Finds what makes the answers of all other checks worthless, so it comes first.
    async fn examine_connection(&self) -> StorageResult<Option<Finding>> {
        Ok(None)
    }

    /// Runs all checks, and returns what they have found, errors first. A check that fails is reported as skipped.
    /// Without a `program`, jobs are compared with the live workers only.
    async fn examine(&self, objectives: Objectives, program: Option<&Program>) -> StorageResult<Vec<Finding>>;

    /// Counts the waiting jobs of each queue and kind. It reads all of them, which takes seconds for some millions.
    async fn waiting(&self) -> StorageResult<Vec<WaitingJobs>>;
}
