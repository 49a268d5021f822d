//! Jobs, failures and workers as the view `jobs.job` and the command line show them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::asked::Asked;
use crate::error::FailureKind;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::limit::Rules;
use crate::output::Output;
use crate::state::JobState;
use crate::trace_context::Traceparent;

/// One row of the view `jobs.job`.
#[derive(Clone, Serialize)]
pub struct JobRecord {
    /// The id.
    pub id: JobId,
    /// The kind.
    pub kind: String,
    /// The queue.
    pub queue: String,
    /// The state.
    pub state: JobState,
    /// Higher runs first.
    pub priority: i16,
    /// The number of attempts so far.
    pub attempt: u16,
    /// How many attempts the job has.
    pub max_attempts: u16,
    /// The number of its counted crashes.
    pub crashes: u16,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When its newest attempt was claimed.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// The worker that holds or held the newest lease.
    pub worker: Option<WorkerId>,
    /// Labels.
    pub tags: Vec<String>,
    /// The arguments, as JSON text.
    pub args: String,
    /// The text of the newest failure.
    pub last_error: Option<String>,
    /// The features of later versions that the job uses, see [`flags`](crate::flags).
    pub flags: i32,
    /// The trace context of its enqueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Traceparent>,
    /// The rules that decide when it may start.
    pub rules: Rules,
}

/// How far a job is, and what it left if it has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobEnd {
    /// The state.
    pub state: JobState,
    /// The newest failure, in words.
    pub error: Option<String>,
    /// The output of a completed job, if it has one.
    pub output: Option<Output>,
}

impl JobEnd {
    /// As a storage has read it.
    pub fn new(state: JobState, error: Option<String>, output: Option<Output>) -> Self {
        Self { state, error, output }
    }
}

/// The most failures that are kept per job. A new one replaces the oldest.
pub const MAX_ERRORS_PER_JOB: i32 = 50;

/// One failed attempt.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptError {
    /// The attempt, from 1. It is 0 if the job ended before its first attempt.
    pub attempt: u16,
    /// How it failed.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// The worker that had claimed the job. `None` if the job was cancelled before its first claim.
    pub worker: Option<WorkerId>,
    /// When the attempt was claimed.
    pub started_at: Option<DateTime<Utc>>,
    /// When it failed.
    pub at: DateTime<Utc>,
    /// The same for failures with the same text, apart from numbers and ids. `None` if an earlier version stored it.
    pub fingerprint: Option<i64>,
    /// The file, line and column of a panic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The functions from the error or panic to the handler, if they were captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// The operator who cancelled or discarded the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// A worker, as it is stored in the database.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerRecord {
    /// The id of this start.
    pub id: WorkerId,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: i32,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// The time of its last heartbeat.
    pub heartbeat_at: DateTime<Utc>,
    /// Whether its lease time since the last heartbeat is not over.
    pub alive: bool,
    /// The version of its program. `None`: it is older than this information.
    pub version: Option<String>,
    /// The queues with the number of jobs that it was started to run at once. An operator may have set another number.
    pub slots: BTreeMap<String, u32>,
    /// The kinds that its program knows. `None`: it is older than this information.
    pub kinds: Option<Vec<String>>,
    /// What an operator has asked of it.
    pub asked: Option<Asked>,
    /// When it was asked.
    pub asked_at: Option<DateTime<Utc>>,
    /// Who has asked.
    pub asked_by: Option<String>,
    /// When it began to drain: it claims no more jobs, and ends. `None`: it does not drain, or it is an older program,
    /// which does not say so.
    pub draining_at: Option<DateTime<Utc>>,
}

/// The dead letters: rows that the database refused to move. They were set apart so that all other jobs can be moved.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeadLetters {
    /// How many there are.
    pub count: i64,
    /// The newest.
    pub newest: Option<DeadLetter>,
}

/// One dead letter.
#[derive(Clone, Debug, Serialize)]
pub struct DeadLetter {
    /// The number of the dead letter.
    pub number: i64,
    /// The job's id.
    pub id: JobId,
    /// The job's kind. A long kind is cut.
    pub kind: String,
    /// The job's queue. A long queue is cut.
    pub queue: String,
    /// Why it could not be moved.
    pub reason: String,
    /// When it was set apart.
    pub at: DateTime<Utc>,
}
