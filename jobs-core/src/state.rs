//! The states of a job. On PostgreSQL, the state follows from the table that holds the job's row, from `run_at` and
//! from the attempt. On SQLite, a column tells what waits, runs or has ended, and the rest follows in the same way.

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
    /// The job is due and waits for a worker. The state ends with a claim, when the job expires, when an operator acts
    /// on the job, or when an enqueue with the same unique key moves its time.
    Available,
    /// The job waits for its `run_at`, and no attempt has failed yet. At that time it becomes available, or held if it
    /// has [rules](crate::Rule).
    Scheduled,
    /// The job waits for its `run_at` after a failed attempt. At that time it becomes available, or held if
    /// it has rules.
    Retrying,
    /// The job is due, and waits until its [rules](crate::Rule) admit it. The state ends with the admission, when the
    /// job expires, because of `on_full`, or when an operator acts on the job.
    Held,
    /// A worker holds the lease of the job. The state ends when that worker finishes or releases the job, with a rescue
    /// if the worker is dead, or when an operator cancels the job.
    Running,
    /// The job succeeded. It is deleted after its retention.
    Completed,
    /// The job was cancelled by its handler or an operator, because it expired, or because of a full limit with
    /// `on_full = "cancel_oldest"`. An operator can retry it. It is deleted after its retention.
    Cancelled,
    /// The job failed permanently: it had no attempts left, a fatal error or too many crashes, it found its limit full
    /// with `on_full = "discard"`, or an operator discarded it. An operator can retry it. It is deleted after its
    /// retention.
    Discarded,
}

impl JobState {
    /// All states.
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

    /// Whether the job waits for a worker, for its rules or for its time.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Available | Self::Scheduled | Self::Retrying | Self::Held)
    }

    /// Whether the job has ended: it is completed, cancelled or discarded.
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

/// The error for a text that is not the name of a state.
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
