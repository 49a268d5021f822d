//! What a worker has done since it started.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::outcome::Transition;

#[derive(Default)]
pub(crate) struct Counters {
    claimed: AtomicU64,
    completed: AtomicU64,
    retried: AtomicU64,
    snoozed: AtomicU64,
    released: AtomicU64,
    cancelled: AtomicU64,
    discarded: AtomicU64,
    leases_lost: AtomicU64,
}

/// What a worker has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Claimed jobs. A job that is claimed twice counts twice.
    pub claimed: u64,
    /// Completed jobs.
    pub completed: u64,
    /// Attempts that failed and will be retried.
    pub retried: u64,
    /// Snoozes.
    pub snoozed: u64,
    /// Released jobs: during a shutdown, after waiting too long for a slot, or because no connection was available for
    /// the handler.
    pub released: u64,
    /// Jobs whose handler cancelled them.
    pub cancelled: u64,
    /// Jobs that failed permanently, also those of dead workers, which this worker has rescued.
    pub discarded: u64,
    /// Attempts that did not start, or whose finish was refused, because their lease was lost.
    pub leases_lost: u64,
}

impl Counters {
    pub(crate) fn count_claimed(&self, jobs: usize) {
        self.claimed.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn claimed(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }

    pub(crate) fn count_finished(&self, transition: &Transition) {
        let counter = match transition {
            Transition::Complete(_) | Transition::CompleteWith(..) => &self.completed,
            Transition::Retry { .. } => &self.retried,
            Transition::Snooze(_) => &self.snoozed,
            Transition::Release => &self.released,
            Transition::Cancel { .. } => &self.cancelled,
            Transition::Discard { .. } => &self.discarded,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Jobs that a rescue has discarded.
    pub(crate) fn count_discarded(&self, jobs: usize) {
        self.discarded.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> WorkerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerStats {
            claimed: read(&self.claimed),
            completed: read(&self.completed),
            retried: read(&self.retried),
            snoozed: read(&self.snoozed),
            released: read(&self.released),
            cancelled: read(&self.cancelled),
            discarded: read(&self.discarded),
            leases_lost: read(&self.leases_lost),
        }
    }
}
