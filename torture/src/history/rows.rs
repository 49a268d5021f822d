//! What the checker looks at: one run, as rows.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// What the application knows of its enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The commit was acknowledged: the job exists.
    Acknowledged,
    /// It was rolled back: the job never was.
    RolledBack,
    /// The answer was lost: the job exists or never was.
    Unknown,
}

impl CommitOutcome {
    /// As it is stored.
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
    /// Its handler returns success in the end.
    Completed,
    /// Its handler says that it is not to be done.
    Cancelled,
    /// It fails until no attempt is left.
    Discarded,
    /// An operator cancels it, whatever its handler is at.
    CalledOff,
}

impl Ending {
    /// As it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CalledOff => "called_off",
            _ => self.state(),
        }
    }

    /// The product's name for the state in which the job is then.
    pub const fn state(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled | Self::CalledOff => "cancelled",
            Self::Discarded => "discarded",
        }
    }
}

/// One job that the suite enqueued, or tried to.
#[derive(Clone, Debug)]
pub struct Enqueued {
    /// The suite's own number.
    pub number: i64,
    /// The id that the product gave it, if that is known.
    pub job: Option<i64>,
    /// Whether it exists.
    pub outcome: CommitOutcome,
    /// How it has to end.
    pub ends: Ending,
    /// Whether its effect and its completion are one.
    pub transactional: bool,
    /// How often its handler fails before it ends well.
    pub failures: u16,
    /// Attempts it has.
    pub max_attempts: u16,
}

/// Something a handler said.
#[derive(Clone, Debug)]
pub struct Event {
    /// The job's number.
    pub number: i64,
    /// The job's id.
    pub job: i64,
    /// Under which lease the attempt ran.
    pub lease: i32,
    /// Which attempt it was.
    pub attempt: i16,
    /// The worker.
    pub worker: Uuid,
    /// Its process.
    pub pid: i32,
    /// `start`, or how the attempt ended.
    pub what: String,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
}

/// What a transactional attempt left in the database.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The job's number.
    pub number: i64,
    /// Under which lease it was written.
    pub lease: i32,
    /// By which worker.
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
    /// Workers that died with it.
    pub crashes: i32,
    /// The newest lease.
    pub lease: i32,
    /// Who held it last.
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
    /// What was said.
    pub message: String,
    /// When it was written.
    pub at: DateTime<Utc>,
}

/// Something that was done to the workers or to the database.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What it was.
    pub what: String,
    /// To which process.
    pub pid: Option<i32>,
    /// When.
    pub at: DateTime<Utc>,
}

/// A session that is in a transaction and does nothing.
#[derive(Clone, Debug)]
pub struct OpenTransaction {
    /// The server's process.
    pub pid: i32,
    /// Its last statement.
    pub query: String,
    /// For how long, in seconds.
    pub seconds: f64,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What was enqueued.
    pub enqueued: Vec<Enqueued>,
    /// What handlers said, in the order of time.
    pub events: Vec<Event>,
    /// What transactional handlers wrote.
    pub effects: Vec<Effect>,
    /// What became of the jobs.
    pub jobs: Vec<Job>,
    /// Failed attempts.
    pub failures: Vec<Failure>,
    /// What was done to them.
    pub faults: Vec<Fault>,
    /// Sessions left in a transaction.
    pub open: Vec<OpenTransaction>,
}
