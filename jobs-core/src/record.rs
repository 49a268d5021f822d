//! A job as people look at it: what the view `jobs.job` and the command line show.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::error::FailureKind;
use crate::job::JobId;
use crate::lease::WorkerId;
use crate::state::JobState;

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
    /// Attempts so far.
    pub attempt: u16,
    /// Attempts before it is discarded.
    pub max_attempts: u16,
    /// How often its worker died with it.
    pub crashes: u16,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When its newest attempt was claimed.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Who holds or held the newest lease.
    pub worker: Option<WorkerId>,
    /// Labels.
    pub tags: Vec<String>,
    /// The arguments, as JSON text.
    pub args: String,
    /// The newest failure, in words.
    pub last_error: Option<String>,
    /// The features of later versions that it uses, see [`flags`](crate::flags).
    pub flags: i32,
}

/// The most failures that are kept per job. A new one replaces the oldest.
pub const MAX_ERRORS_PER_JOB: i32 = 50;

/// One failed attempt.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptError {
    /// The attempt, from 1.
    pub attempt: u16,
    /// How it failed.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
    /// Who had claimed it; `None` if nobody had.
    pub worker: Option<WorkerId>,
    /// When it was claimed.
    pub started_at: Option<DateTime<Utc>>,
    /// When it failed.
    pub at: DateTime<Utc>,
}

/// How many jobs of one queue and kind stand in each state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindStats {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Waiting and due.
    pub available: i64,
    /// Waiting for their time, never failed.
    pub scheduled: i64,
    /// Waiting for their time after a failed attempt.
    pub retrying: i64,
    /// Under a lease.
    pub running: i64,
    /// Completed and still kept.
    pub completed: i64,
    /// Cancelled and still kept.
    pub cancelled: i64,
    /// Discarded and still kept.
    pub discarded: i64,
    /// How long the oldest due job has waited, in seconds.
    pub oldest_wait_seconds: Option<f64>,
}

/// A worker process as the others see it.
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
    /// When it last showed that it is alive.
    pub heartbeat_at: DateTime<Utc>,
    /// Whether its lease is still good.
    pub alive: bool,
}

/// Rows that the database refused to move on, and that were set apart so that all others go on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeadLetters {
    /// How many there are.
    pub count: i64,
    /// The newest.
    pub newest: Option<DeadLetter>,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct DeadLetter {
    /// Its number among them.
    pub number: i64,
    /// The job's id.
    pub id: JobId,
    /// The job's kind; a long one is cut.
    pub kind: String,
    /// Its queue, cut likewise.
    pub queue: String,
    /// Why it could not be moved.
    pub reason: String,
    /// When it was set apart.
    pub at: DateTime<Utc>,
}
