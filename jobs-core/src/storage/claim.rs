//! What a worker asks for.

use std::sync::Arc;

use crate::lease::WorkerId;

/// How many jobs of a queue a worker wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The queue.
    pub queue: Arc<str>,
    /// As many as it has free slots: these start at once.
    pub slots: usize,
    /// As many more to prefetch; a claim that has filled the slots may leave them to the next. Prefetching stops
    /// at the first job that one crash of the worker would discard, or that was in a crash before.
    pub prefetch: usize,
}

impl Wanted {
    /// As many as there are free slots.
    pub fn new(queue: impl Into<Arc<str>>, slots: usize) -> Self {
        Self { queue: queue.into(), slots, prefetch: 0 }
    }

    /// The most it may get.
    pub fn total(&self) -> usize {
        self.slots.saturating_add(self.prefetch)
    }
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks. A worker that is not registered gets nothing.
    pub worker: WorkerId,
    /// What it wants of which queues; each queue once.
    pub wanted: Vec<Wanted>,
    /// The kinds it knows. Jobs of other kinds are left for others.
    pub kinds: Arc<[String]>,
    /// A storage may let only so many workers look at once. This one was refused repeatedly, and bypasses the limit.
    pub bypass_limit: bool,
    /// Jobs that were in so many crashes are quarantined, see [`RescuePolicy::quarantined_at`](super::RescuePolicy::quarantined_at).
    pub quarantined_at: u16,
    /// Asks for the best quarantined job instead of all others.
    pub quarantined: bool,
}

impl Claim {
    /// Asks for these, within the limits and for no quarantined job.
    pub fn new(worker: WorkerId, wanted: Vec<Wanted>, kinds: impl Into<Arc<[String]>>) -> Self {
        Self { worker, wanted, kinds: kinds.into(), bypass_limit: false, quarantined_at: u16::MAX, quarantined: false }
    }

    /// The same for a quarantined job: one, or none.
    pub fn for_quarantined(&self) -> Self {
        Self { quarantined: true, ..self.clone() }
    }

    /// The same for no queue yet.
    pub fn clone_without_wanted(&self) -> Self {
        Self { wanted: Vec::new(), kinds: self.kinds.clone(), ..*self }
    }
}
