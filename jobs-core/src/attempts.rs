//! The attempts of a job, from its failures and its own row.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::error::FailureKind;
use crate::lease::WorkerId;
use crate::record::{AttemptError, JobRecord};
use crate::state::JobState;

/// One attempt of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The attempt, from 1. It is 0 if the job ended before its first attempt.
    pub attempt: u16,
    /// The worker.
    pub worker: Option<WorkerId>,
    /// When it was claimed.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended. `None` while it runs.
    pub ended_at: Option<DateTime<Utc>>,
    /// How it ended.
    pub end: AttemptEnd,
    /// The text of its failure.
    pub error: Option<String>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AttemptEnd {
    /// It still runs.
    Running,
    /// It has completed the job.
    Completed,
    /// It failed in this way, the job was cancelled, or it was released because the worker was killed while it was
    /// stopping.
    Failed(FailureKind),
}

/// The attempts that are known of a job, oldest first. Attempts that ended with a snooze or a release leave nothing,
/// and only the newest failures of a job are kept.
pub(crate) fn attempts(job: &JobRecord, errors: &[AttemptError]) -> Vec<AttemptRecord> {
    let failed = |error: &AttemptError| AttemptRecord {
        attempt: error.attempt,
        worker: error.worker,
        started_at: error.started_at,
        ended_at: Some(error.at),
        end: AttemptEnd::Failed(error.kind),
        error: Some(error.message.clone()),
    };
    let mut attempts: Vec<AttemptRecord> = errors.iter().map(failed).collect();
    let end = match job.state {
        JobState::Running => AttemptEnd::Running,
        JobState::Completed => AttemptEnd::Completed,
        _ => return attempts,
    };
    attempts.push(AttemptRecord {
        attempt: job.attempt,
        worker: job.worker,
        started_at: job.claimed_at,
        ended_at: job.finished_at,
        end,
        error: None,
    });
    attempts
}
