//! The states of a job. On PostgreSQL the state follows from the table of the job's row, from `run_at` and from the
//! attempt. SQLite has a column.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state of a job.
///
/// ```text
///            claim                finish
/// available ───────▶ running ──────────────▶ completed | cancelled | discarded
///  ▲     ▲              │
///  │ due └──────────────┤ release, rescue
///  └─ scheduled, retrying ◀─┘ snooze, retry
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JobState {
    /// Due, and waits for a worker. Ends with a claim, when the job expires, or when an operator cancels the job.
    Available,
    /// Waits for its `run_at`, and no attempt has failed. Becomes available at that time, without an update of the row.
    Scheduled,
    /// Waits for its `run_at` after a failed attempt. Becomes available at that time.
    Retrying,
    /// Due, and waits until its [rule](crate::Rule) admits it. Ends with the admission, when the job expires, by
    /// `on_full`, or when an operator cancels the job.
    Held,
    /// Is leased by a worker. Ends with the finish of that lease, with a rescue if the worker is dead, or when an
    /// operator cancels the job.
    Running,
    /// Succeeded. The pruner deletes the job after its retention.
    Completed,
    /// Was cancelled by its handler or by an operator. An operator can retry it. The pruner deletes it after its
    /// retention.
    Cancelled,
    /// Failed permanently: no attempt left, a fatal error, or too many crashes. An operator can retry it. The pruner
    /// deletes it after its retention.
    Discarded,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Available,
        Self::Scheduled,
        Self::Retrying,
        Self::Held,
        Self::Running,
        Self::Completed,
        Self::Cancelled,
        Self::Discarded,
    ];

    /// The name of the state, as in the view `jobs.job`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Scheduled => "scheduled",
            Self::Retrying => "retrying",
            Self::Held => "held",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// Whether the job waits for a worker, for its limit or for its time.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Available | Self::Scheduled | Self::Retrying | Self::Held)
    }

    /// Whether the job has ended.
    ///
    /// ```
    /// # use diesel_jobs_core::JobState;
    /// assert!(JobState::Discarded.is_finished());
    /// assert!(!JobState::Running.is_finished());
    /// ```
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that is not the name of a state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a job state; write one of available, scheduled, retrying, held, running, completed, cancelled, discarded"
)]
pub struct UnknownState(String);

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| UnknownState(word.to_owned()))
    }
}
