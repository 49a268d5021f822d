//! Jobs, failures and workers as the view `jobs.job` and the command line show them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::asked::Asked;
use crate::declared_schedule::Declarations;
use crate::error::FailureKind;
use crate::job_id::JobId;
use crate::lease::WorkerId;
use crate::output::Output;
use crate::rules::Rules;
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
    /// The priority. Jobs with a higher priority run first.
    pub priority: i16,
    /// The number of attempts so far.
    pub attempt: u16,
    /// How many attempts the job has, including the first.
    pub max_attempts: u16,
    /// How many crashes of the job were counted.
    pub crashes: u16,
    /// When the job is or was due.
    pub run_at: DateTime<Utc>,
    /// When the job was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When its newest attempt was claimed.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When the job ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// The worker that holds the newest lease, or held it.
    pub worker: Option<WorkerId>,
    /// The tags.
    pub tags: Vec<String>,
    /// The arguments, as JSON text.
    pub args: String,
    /// The message of the newest failure.
    pub last_error: Option<String>,
    /// The features of later versions that the job uses, see [`flags`](crate::flags).
    pub flags: i32,
    /// The trace context of the enqueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Traceparent>,
    /// The rules that decide when the job may start.
    pub rules: Rules,
}

/// The state of a job, with its output or its newest failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobEnd {
    /// The state.
    pub state: JobState,
    /// The message of the newest failure, if there is one.
    pub error: Option<String>,
    /// The output of a completed job, if it has one.
    pub output: Option<Output>,
}

impl JobEnd {
    /// Creates a value from what a storage has read.
    pub fn new(state: JobState, error: Option<String>, output: Option<Output>) -> Self {
        Self { state, error, output }
    }
}

/// The most failures that are kept per job. A new one replaces the oldest.
pub const MAX_ERRORS_PER_JOB: i32 = 50;

/// One failed attempt.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptError {
    /// The number of the attempt, from 1. It is 0 if the job ended before its first attempt.
    pub attempt: u16,
    /// How it failed.
    pub kind: FailureKind,
    /// The message.
    pub message: String,
    /// The worker that had claimed the job. `None` if the job ended before its first claim.
    pub worker: Option<WorkerId>,
    /// When the job was claimed for this attempt.
    pub started_at: Option<DateTime<Utc>>,
    /// When it failed.
    pub at: DateTime<Utc>,
    /// A hash that is equal for failures whose messages differ only in numbers and ids. `None` if an earlier version
    /// stored the failure.
    pub fingerprint: Option<i64>,
    /// The file, line and column of a panic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The backtrace from the error or panic to the handler, if it was captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// The operator who cancelled or discarded the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// A worker as the database knows it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerRecord {
    /// The id. It changes with each start of the worker.
    pub id: WorkerId,
    /// The name of its machine.
    pub host: String,
    /// The id of its process.
    pub pid: i32,
    /// The queues that it serves, by name or by pattern, such as `tenant-*`.
    pub queues: Vec<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// The time of its last heartbeat.
    pub heartbeat_at: DateTime<Utc>,
    /// Whether its last heartbeat is more recent than its lease time.
    pub alive: bool,
    /// The version of its program. `None` if the program set none, or is too old to report it.
    pub version: Option<String>,
    /// For each queue, the number of slots with which the worker was started. An operator may have set another number
    /// since.
    pub slots: BTreeMap<String, u32>,
    /// How many jobs of all its queues together it runs at once. `None`: it has no such limit.
    pub slots_total: Option<u32>,
    /// The kinds that its program can run. `None` if the program is too old to report them.
    pub kinds: Option<Vec<String>>,
    /// The schedules that its program declares, by name.
    pub schedules: Declarations,
    /// What an operator has asked the worker to do.
    pub asked: Option<Asked>,
    /// When the operator asked it.
    pub asked_at: Option<DateTime<Utc>>,
    /// Who asked it.
    pub asked_by: Option<String>,
    /// When the worker began to drain: it claims no more jobs and then ends. `None` if it is not draining, or if its
    /// program is too old to report it.
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
