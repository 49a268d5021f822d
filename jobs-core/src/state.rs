//! The states of a job. A job's state is the table it stands in; each has one way in and few ways out.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job is in its life.
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
    /// Due, and waits for a worker. Left by a claim or by an operator's cancel.
    Available,
    /// Waits for its `run_at` and has never failed. Becomes available when the time comes, which no row has to say.
    Scheduled,
    /// Waits for its `run_at` after a failed attempt. Becomes available when the time comes.
    Retrying,
    /// Under a worker's lease. Left by that lease's finish, or by a rescue when its worker is dead.
    Running,
    /// Ended well. Left only by the pruner.
    Completed,
    /// Ended by its own handler or by an operator before it succeeded. Left by the pruner or an operator's retry.
    Cancelled,
    /// Failed for good: attempts used up, a fatal error, or too many crashes. Left by the pruner or an operator's retry.
    Discarded,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Available,
        Self::Scheduled,
        Self::Retrying,
        Self::Running,
        Self::Completed,
        Self::Cancelled,
        Self::Discarded,
    ];

    /// The name people and the view `jobs.job` use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Scheduled => "scheduled",
            Self::Retrying => "retrying",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// Whether the job waits, for a worker or for its time.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Available | Self::Scheduled | Self::Retrying)
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

/// A word that names no state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a job state; write one of available, scheduled, retrying, running, completed, cancelled, discarded"
)]
pub struct UnknownState(String);

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| UnknownState(word.to_owned()))
    }
}
