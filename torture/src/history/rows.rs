//! The rows of one run, as the checker reads them.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// The result of the application's commit, as far as the application received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The commit was acknowledged: the job exists.
    Acknowledged,
    /// It was rolled back: the job never existed.
    RolledBack,
    /// The reply was lost: the job exists, or it never existed.
    Unknown,
}

impl CommitOutcome {
    /// The stored text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::RolledBack => "rolled_back",
            Self::Unknown => "unknown",
        }
    }
}

/// How a job has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its last attempt returns success.
    Completed,
    /// Its handler cancels it.
    Cancelled,
    /// It fails until no attempt is left.
    Discarded,
    /// An operator cancels it, at any point of its handler.
    CalledOff,
}

impl Ending {
    /// The stored text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CalledOff => "called_off",
            _ => self.state(),
        }
    }

    /// The product's name for the final state of the job.
    pub const fn state(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled | Self::CalledOff => "cancelled",
            Self::Discarded => "discarded",
        }
    }
}

/// One job that the suite enqueued, or tried to enqueue.
#[derive(Clone, Debug)]
pub struct Enqueued {
    /// The suite's own number for the job.
    pub number: i64,
    /// The id that the product gave it, if that is known.
    pub job: Option<i64>,
    /// Whether the commit of the enqueue was acknowledged.
    pub outcome: CommitOutcome,
    /// How it has to end.
    pub ends: Ending,
    /// Whether its effect and its completion are in one transaction.
    pub transactional: bool,
    /// How many of its attempts fail as planned.
    pub failures: u16,
    /// The maximum number of attempts.
    pub max_attempts: u16,
}

/// One event that a handler reported.
#[derive(Clone, Debug)]
pub struct Event {
    /// The job's number.
    pub number: i64,
    /// The job's id.
    pub job: i64,
    /// The lease number of the attempt.
    pub lease: i32,
    /// The number of the attempt.
    pub attempt: i16,
    /// The worker.
    pub worker: Uuid,
    /// The worker's process.
    pub pid: i32,
    /// `start`, or how the attempt ended.
    pub what: String,
    /// When it was stored, by the database's clock.
    pub at: DateTime<Utc>,
}

/// What a transactional attempt wrote to the database.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The job's number.
    pub number: i64,
    /// The lease number of the attempt.
    pub lease: i32,
    /// The worker of the attempt.
    pub worker: Uuid,
}

/// A job as the product stores it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The suite's number, from its arguments.
    pub number: i64,
    /// Its id.
    pub id: i64,
    /// Its state.
    pub state: String,
    /// Its priority.
    pub priority: i16,
    /// Attempts consumed.
    pub attempt: i32,
    /// How many workers crashed while they held it.
    pub crashes: i32,
    /// The newest lease number.
    pub lease: i32,
    /// The worker that held it last.
    pub worker: Option<Uuid>,
    /// When it was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// A failed attempt as the product stores it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The job's id.
    pub job: i64,
    /// Which attempt.
    pub attempt: i16,
    /// Its kind: `error`, `panic`, `crash`, `cancelled` ..
    pub kind: String,
    /// The error message.
    pub message: String,
    /// When it was written.
    pub at: DateTime<Utc>,
}

/// Something that was done to the workers or to the database.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What was done.
    pub what: String,
    /// The process to which it was done, if it was one process.
    pub pid: Option<i32>,
    /// When it was done.
    pub at: DateTime<Utc>,
}

/// A session that is idle in a transaction.
#[derive(Clone, Debug)]
pub struct OpenTransaction {
    /// The process id of the session on the server.
    pub pid: i32,
    /// Its last statement.
    pub query: String,
    /// How long it has been idle, in seconds.
    pub seconds: f64,
}

/// The record of one run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What was enqueued.
    pub enqueued: Vec<Enqueued>,
    /// What handlers reported, in the order of time.
    pub events: Vec<Event>,
    /// What transactional handlers wrote.
    pub effects: Vec<Effect>,
    /// The stored jobs.
    pub jobs: Vec<Job>,
    /// Failed attempts.
    pub failures: Vec<Failure>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Sessions left in a transaction.
    pub open: Vec<OpenTransaction>,
}
