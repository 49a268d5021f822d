//! What happened to jobs a moment ago, for people who watch.

use std::collections::BTreeSet;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::job_id::JobId;
use crate::lease::WorkerId;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Happened {
    /// A worker claimed the job. It starts it at once, or a moment later.
    Started,
    /// It completed.
    Completed,
    /// An attempt failed, and another one follows.
    Retried,
    /// It failed permanently.
    Discarded,
    /// It was cancelled.
    Cancelled,
    /// Its worker died, and another attempt follows.
    Rescued,
}

impl Happened {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Started, Self::Completed, Self::Retried, Self::Discarded, Self::Cancelled, Self::Rescued];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Retried => "retried",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Rescued => "rescued",
        }
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What happened to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobEvent {
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
    /// What.
    pub event: Happened,
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// The attempt.
    pub attempt: u16,
    /// The worker that had claimed it, if it was claimed.
    pub worker: Option<WorkerId>,
    /// What failed, or why it was cancelled.
    pub message: Option<String>,
}

impl JobEvent {
    /// Events with the same key are the same event.
    pub fn key(&self) -> (JobId, Happened, u16, DateTime<Utc>) {
        (self.id, self.event, self.attempt, self.at)
    }
}

/// From where events are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventsSince {
    /// The time and the last failure of the first reading. Nothing from before is ever returned.
    pub begun: Option<(DateTime<Utc>, i64)>,
    /// Events after this time. `None`: nothing was read yet, so only the place is found.
    pub at: Option<DateTime<Utc>>,
    /// Failures after this one.
    pub failure: i64,
    /// For how long ended jobs are kept, in microseconds: the times that were seen so far. Ended jobs are found through
    /// the index of the time until which they are kept.
    pub keeps: BTreeSet<i64>,
}

/// Events, and from where the next ones are read.
#[derive(Clone, Debug)]
pub struct Events {
    /// In the order of their times. An event may come again with the next reading, because transactions that began
    /// earlier may commit later.
    pub events: Vec<JobEvent>,
    /// From where to continue.
    pub next: EventsSince,
}

/// How many failures before the last one are read again, because their transactions may commit later than that of the
/// last one.
const FAILURES_AGAIN: i64 = 100;

impl EventsSince {
    /// How much earlier than the last reading the next one begins.
    pub const OVERLAP: chrono::TimeDelta = chrono::TimeDelta::seconds(2);
    /// The most ended jobs that one reading examines, for each time that jobs are kept.
    pub const MOST: i64 = 1000;
    /// The newest jobs, by their ids, that each reading examines. They also show for how long jobs are kept.
    pub const NEWEST: i64 = 500;
    /// The most different times.
    const MOST_KEEPS: usize = 64;

    /// Where the next reading begins. `failure` is the last one that was read.
    pub fn next(&self, now: DateTime<Utc>, failure: i64, keeps: impl IntoIterator<Item = i64>) -> Self {
        let mut keeps: BTreeSet<i64> = self.keeps.iter().copied().chain(keeps).collect();
        while keeps.len() > Self::MOST_KEEPS {
            keeps.pop_last();
        }
        let (first, first_failure) = self.begun.unwrap_or((now, failure));
        let failure = self.failure.max(failure.saturating_sub(FAILURES_AGAIN)).max(first_failure);
        Self { begun: Some((first, first_failure)), at: Some((now - Self::OVERLAP).max(first)), failure, keeps }
    }
}

impl Events {
    /// Sorted by time.
    pub fn new(mut events: Vec<JobEvent>, next: EventsSince) -> Self {
        events.sort_by_key(|event| (event.at, event.id, event.event));
        Self { events, next }
    }
}
