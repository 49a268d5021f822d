//! The work of one job: the arguments that tell the handler what to do.

use std::time::Duration;

use diesel_jobs::rules::OnFull;
use serde::{Deserialize, Serialize};

use crate::history::{CommitOutcome, Ending, Enqueued};

/// How a job's handler is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// On the runtime.
    Async,
    /// On a thread for handlers.
    Blocking,
    /// On the runtime, inside the transaction that finishes the job.
    Transactional,
    /// On a thread for handlers, inside the transaction that finishes the job.
    TransactionalBlocking,
}

impl Shape {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Async, Self::Blocking, Self::Transactional, Self::TransactionalBlocking];

    /// Whether the effect and the completion are in one transaction.
    pub const fn is_transactional(self) -> bool {
        matches!(self, Self::Transactional | Self::TransactionalBlocking)
    }
}

/// The limit of a job: how many jobs with the same name and key run at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkLimit {
    /// The name.
    pub name: String,
    /// The key.
    pub key: i64,
    /// How many run at once.
    pub most: u32,
    /// What happens with the job if it finds the limit full.
    #[serde(default)]
    pub on_full: OnFull,
    /// Its tenant. The tenants that wait for the limit take turns.
    #[serde(default)]
    pub tenant: Option<i64>,
}

impl WorkLimit {
    fn new(name: &str, key: i64, most: u32) -> Self {
        Self { name: name.to_owned(), key, most, on_full: OnFull::Wait, tenant: None }
    }
}

/// The sequence of a job: its jobs run one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkSequence {
    /// The name.
    pub name: String,
    /// The key.
    pub key: i64,
    /// Whether it goes on after a discarded job. Otherwise it is halted.
    pub skips: bool,
}

/// How many jobs of a rate start in a second.
pub const RATE: u32 = 50;
/// How many of them start at once after a quiet time.
pub const BURST: u32 = 4;

/// What a handler does. By default it succeeds at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The suite's own number for the job.
    pub number: i64,
    /// How it is run.
    pub shape: Shape,
    /// Whether it runs in a batch with others, in one transaction. Only for transactional jobs.
    #[serde(default)]
    pub batched: bool,
    /// The duration of the first attempt, in ms.
    pub millis: u64,
    /// The duration of later attempts, in ms.
    pub later_millis: u64,
    /// Whether it ends early when it is asked to stop.
    pub polite: bool,
    /// How many of its first attempts fail.
    pub failures: u16,
    /// Whether they fail with a panic.
    pub panics: bool,
    /// Whether it snoozes, under about every second lease.
    pub snoozes: bool,
    /// Whether it cancels itself after its failures.
    pub cancels: bool,
    /// The maximum number of attempts.
    pub max_attempts: u16,
    /// Its priority.
    pub priority: i16,
    /// Its limit.
    #[serde(default)]
    pub limit: Option<WorkLimit>,
    /// A second limit.
    #[serde(default)]
    pub second: Option<WorkLimit>,
    /// Its sequence.
    #[serde(default)]
    pub sequence: Option<WorkSequence>,
    /// The key of its rate.
    #[serde(default)]
    pub rate: Option<i64>,
}

impl Work {
    /// Returns work that succeeds at once.
    pub fn new(number: i64, shape: Shape) -> Self {
        Self {
            number,
            shape,
            batched: false,
            millis: 0,
            later_millis: 0,
            polite: false,
            failures: 0,
            panics: false,
            snoozes: false,
            cancels: false,
            max_attempts: 25,
            priority: 0,
            limit: None,
            second: None,
            sequence: None,
            rate: None,
        }
    }

    /// Sets the duration of all attempts, in ms.
    pub fn lasting(self, millis: u64) -> Self {
        Self { millis, later_millis: millis, ..self }
    }

    /// Sets the duration of later attempts, in ms.
    pub fn and_later(self, later_millis: u64) -> Self {
        Self { later_millis, ..self }
    }

    /// Sets its limit.
    pub fn limited(self, name: &str, key: i64, most: u32) -> Self {
        Self { limit: Some(WorkLimit::new(name, key, most)), ..self }
    }

    /// Sets what happens with it if its limit is full.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.limit = self.limit.map(|limit| WorkLimit { on_full, ..limit });
        self
    }

    /// Sets its tenant. It needs a limit.
    pub fn of_tenant(mut self, tenant: i64) -> Self {
        self.limit = self.limit.map(|limit| WorkLimit { tenant: Some(tenant), ..limit });
        self
    }

    /// Lets it run in a batch.
    pub fn in_batch(self) -> Self {
        Self { batched: true, ..self }
    }

    /// Sets a second limit. The job starts when both allow it.
    pub fn and_limited(self, name: &str, key: i64, most: u32) -> Self {
        Self { second: Some(WorkLimit::new(name, key, most)), ..self }
    }

    /// Sets its sequence.
    pub fn ordered(self, name: &str, key: i64, skips: bool) -> Self {
        Self { sequence: Some(WorkSequence { name: name.to_owned(), key, skips }), ..self }
    }

    /// Sets its rate: [`RATE`] a second, [`BURST`] at once.
    pub fn rated(self, key: i64) -> Self {
        Self { rate: Some(key), ..self }
    }

    /// Returns the duration of an attempt.
    pub(super) fn time(&self, attempt: u16) -> Duration {
        Duration::from_millis(if attempt == 1 { self.millis } else { self.later_millis })
    }

    /// Returns the application's record of the enqueue.
    pub fn enqueued(&self, job: Option<i64>, outcome: CommitOutcome) -> Enqueued {
        let ends = if self.failures >= self.max_attempts {
            Ending::Discarded
        } else if self.cancels {
            Ending::Cancelled
        } else {
            Ending::Completed
        };
        Enqueued {
            number: self.number,
            job,
            outcome,
            ends,
            transactional: self.shape.is_transactional(),
            failures: self.failures.min(self.max_attempts),
            max_attempts: self.max_attempts,
        }
    }
}
