//! What a worker asks for.

use std::sync::Arc;

use crate::lease::WorkerId;

/// How many jobs of a queue a worker wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The queue.
    pub queue: Arc<str>,
    /// The number of free slots. These jobs start at once.
    pub slots: usize,
    /// How many more to prefetch. A claim that has filled the slots may leave them to the next claim. Prefetching stops
    /// at the first job that one crash of the worker would discard, or that was in a crash before.
    pub prefetch: usize,
}

impl Wanted {
    /// Wants as many jobs as there are free slots, and prefetches none.
    pub fn new(queue: impl Into<Arc<str>>, slots: usize) -> Self {
        Self { queue: queue.into(), slots, prefetch: 0 }
    }

    /// The largest number of jobs that it may get.
    pub fn total(&self) -> usize {
        self.slots.saturating_add(self.prefetch)
    }
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The worker that asks. A worker that is not registered gets nothing.
    pub worker: WorkerId,
    /// What it wants from which queues, each queue once.
    pub wanted: Vec<Wanted>,
    /// The kinds that it knows. It leaves jobs of other kinds to other workers.
    pub kinds: Arc<[String]>,
    /// Bypasses the claim limit, which a storage may set for the workers that claim at once. This worker was refused
    /// repeatedly.
    pub bypass_limit: bool,
    /// Jobs that were in at least this many crashes are quarantined, see
    /// [`RescuePolicy::quarantined_at`](super::RescuePolicy::quarantined_at).
    pub quarantined_at: u16,
    /// Asks for the best quarantined job instead of all other jobs.
    pub quarantined: bool,
}

impl Claim {
    /// Asks for these jobs, within the claim limit and for no quarantined job.
    pub fn new(worker: WorkerId, wanted: Vec<Wanted>, kinds: impl Into<Arc<[String]>>) -> Self {
        Self { worker, wanted, kinds: kinds.into(), bypass_limit: false, quarantined_at: u16::MAX, quarantined: false }
    }

    /// The same claim for a quarantined job. It brings one job or none.
    pub fn for_quarantined(&self) -> Self {
        Self { quarantined: true, ..self.clone() }
    }

    /// The same claim without any queue.
    pub fn clone_without_wanted(&self) -> Self {
        Self { wanted: Vec::new(), kinds: self.kinds.clone(), ..*self }
    }
}
