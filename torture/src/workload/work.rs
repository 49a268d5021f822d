//! One job: what its arguments tell its handler to do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::history::{CommitOutcome, Ending, Enqueued};

/// How a job's handler is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// On the runtime.
    Async,
    /// On the blocking pool.
    Blocking,
    /// On the runtime, inside the transaction that finishes the job.
    Transactional,
    /// On the blocking pool, inside the transaction that finishes the job.
    TransactionalBlocking,
}

impl Shape {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Async, Self::Blocking, Self::Transactional, Self::TransactionalBlocking];

    /// Whether effect and completion are one.
    pub const fn is_transactional(self) -> bool {
        matches!(self, Self::Transactional | Self::TransactionalBlocking)
    }
}

/// What a handler is to do. By default: nothing, at once, with success.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// The suite's own number for the job.
    pub number: i64,
    /// How it is run.
    pub shape: Shape,
    /// What it takes.
    pub millis: u64,
    /// What its later attempts take.
    pub later_millis: u64,
    /// Whether it ends early when it is asked to.
    pub polite: bool,
    /// Its first so many attempts fail.
    pub failures: u16,
    /// And they do it by a panic.
    pub panics: bool,
    /// Under every other lease, about, it asks for a later time.
    pub snoozes: bool,
    /// Then it cancels itself.
    pub cancels: bool,
    /// Attempts it has.
    pub max_attempts: u16,
    /// Its priority.
    pub priority: i16,
}

impl Work {
    /// Succeeds at once.
    pub fn new(number: i64, shape: Shape) -> Self {
        Self {
            number,
            shape,
            millis: 0,
            later_millis: 0,
            polite: false,
            failures: 0,
            panics: false,
            snoozes: false,
            cancels: false,
            max_attempts: 25,
            priority: 0,
        }
    }

    /// Takes this long.
    pub fn lasting(self, millis: u64) -> Self {
        Self { millis, later_millis: millis, ..self }
    }

    /// And its later attempts take this long.
    pub fn and_later(self, later_millis: u64) -> Self {
        Self { later_millis, ..self }
    }

    /// What an attempt takes.
    pub(super) fn time(&self, attempt: u16) -> Duration {
        Duration::from_millis(if attempt == 1 { self.millis } else { self.later_millis })
    }

    /// What the application writes down about it.
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
