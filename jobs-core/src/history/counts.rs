//! What workers did: numbers of outcomes, and the durations of waits and runs.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::bins::Bins;
use crate::outcome::Transition;

/// The queue and the kind under which work is counted if a worker sees too many different ones within a minute.
pub const OTHER: &str = "_other";

/// What was done with jobs of one queue and kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkCounts {
    /// Completed jobs.
    pub completed: u64,
    /// Failed attempts that are followed by another one.
    pub retried: u64,
    /// Jobs that failed permanently.
    pub discarded: u64,
    /// Jobs that their handler cancelled.
    pub cancelled: u64,
    /// Jobs that their handler put off.
    pub snoozed: u64,
    /// From `run_at` to the start of each attempt.
    pub waits: Bins,
    /// From the start to the end of each attempt.
    pub runs: Bins,
    /// The sum of the waits.
    pub wait_seconds: f64,
    /// The sum of the runs.
    pub run_seconds: f64,
}

impl WorkCounts {
    /// Counts the outcome of an attempt. A release has none: returns `false`.
    pub fn count(&mut self, transition: &Transition) -> bool {
        let counter = match transition {
            Transition::Complete(_) | Transition::CompleteWith(..) => &mut self.completed,
            Transition::Retry { .. } => &mut self.retried,
            Transition::Discard { .. } => &mut self.discarded,
            Transition::Cancel { .. } => &mut self.cancelled,
            Transition::Snooze(_) => &mut self.snoozed,
            Transition::Release => return false,
        };
        *counter += 1;
        true
    }

    /// Counts the wait before an attempt, and its run.
    pub fn record(&mut self, waited: Duration, ran: Duration) {
        self.waits.record(waited);
        self.runs.record(ran);
        self.wait_seconds += waited.as_secs_f64();
        self.run_seconds += ran.as_secs_f64();
    }

    /// Adds the numbers of other work.
    pub fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.retried += other.retried;
        self.discarded += other.discarded;
        self.cancelled += other.cancelled;
        self.snoozed += other.snoozed;
        self.waits.merge(&other.waits);
        self.runs.merge(&other.runs);
        self.wait_seconds += other.wait_seconds;
        self.run_seconds += other.run_seconds;
    }

    /// How many attempts ended.
    pub fn attempts(&self) -> u64 {
        self.completed + self.retried + self.discarded + self.cancelled + self.snoozed
    }
}

/// What was done with jobs of one queue and kind, in a minute or in a longer time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRow {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The numbers.
    #[serde(flatten)]
    pub counts: WorkCounts,
}

/// What one worker did within a minute.
#[derive(Clone, Debug)]
pub struct HistoryBatch {
    /// Identifies the batch. A batch that was stored already is not stored again.
    pub id: Uuid,
    /// The middle of the time in which it was counted, by the monotonic clock. The database computes the minute from
    /// its own clock and the age of this moment.
    pub middle: Instant,
    /// The rows.
    pub rows: Vec<HistoryRow>,
}
