//! Work in the background that any worker does for all, a batch at a time.

use std::time::Duration;

use super::doctor::Finding;
use crate::history::Fold;

/// What is done from time to time. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Delete ended jobs whose retention is over.
    Prune,
    /// Join old rows of the history.
    FoldHistory(Fold),
    /// Delete rows of the history that are older than this.
    PruneHistory(Duration),
    /// Count all jobs. One worker at a time does it, and the storage says when it is the next one's turn.
    SampleJobs,
    /// Do a batch of an open [operation](super::OperationRecord) that no other session works on, of the oldest one.
    StepOperation,
}

impl Chore {
    /// The name of the operation, as metrics and logs show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prune => "prune",
            Self::FoldHistory(_) => "fold_history",
            Self::PruneHistory(_) => "prune_history",
            Self::SampleJobs => "sample_jobs",
            Self::StepOperation => "step_operation",
        }
    }
}

/// The result of one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// How many rows were changed. A count of all jobs counts as one.
    pub rows: usize,
    /// Whether there is more to do at once.
    pub more: bool,
    /// The time until the next turn of any worker, if the storage says so.
    pub next: Option<Duration>,
    /// Why it has not done what was due.
    pub rested: Option<String>,
    /// Due jobs that no live worker runs. Only a count of all jobs finds them.
    pub unserved: Vec<Finding>,
}

impl Maintained {
    /// This many rows were changed, of at most `limit`. If it was the limit, there is more to do.
    pub fn batch(rows: usize, limit: usize) -> Self {
        Self { rows, more: rows >= limit, ..Self::default() }
    }
}
