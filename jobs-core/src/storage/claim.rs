//! The input of a claim.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::WorkerId;

/// How many jobs of a queue a worker wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The queue.
    pub queue: Arc<str>,
    /// The number of free slots. These jobs start at once.
    pub slots: usize,
    /// How many more jobs to prefetch. A claim that has filled the slots may leave them to the next claim. Prefetching
    /// stops at the first job that is at its last attempt or was in a crash before.
    pub prefetch: usize,
}

impl Wanted {
    /// Asks for as many jobs as there are free slots, and prefetches none.
    pub fn new(queue: impl Into<Arc<str>>, slots: usize) -> Self {
        Self { queue: queue.into(), slots, prefetch: 0 }
    }

    /// The largest number of jobs that the claim may return for this queue.
    pub fn total(&self) -> usize {
        self.slots.saturating_add(self.prefetch)
    }
}

/// The waiting jobs for whose due time a worker asks. Internal, and exhaustive, so that no code of ours misses a
/// variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Those that may be claimed once they are due. Jobs that become due later than `within` may be left out.
    Available {
        /// How far ahead to look.
        within: Duration,
    },
    /// Those that are held for a rule. Only workers that run until nothing is left ask for them.
    Held,
    /// Those that are due and held for a rate whose next token comes later. The answer is the time until the first of
    /// these tokens. Only workers that run until no job is due ask for them.
    Token,
}

/// A claim: the jobs that a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The worker that claims. A worker that is not registered gets no jobs.
    pub worker: WorkerId,
    /// How many jobs it wants from each queue. Each queue occurs once.
    pub wanted: Vec<Wanted>,
    /// At most this many jobs of all these queues together: those of the queues that are named first. `None`: no limit
    /// but those of the queues.
    pub most: Option<usize>,
    /// The kinds that the worker knows. Jobs of other kinds are left to other workers.
    pub kinds: Arc<[String]>,
    /// Whether to bypass the claim limit, because this worker was refused for too long.
    pub bypass_limit: bool,
    /// Jobs with at least this many counted crashes are quarantined, see
    /// [`RescuePolicy::quarantined_at`](super::RescuePolicy::quarantined_at).
    pub quarantined_at: u16,
    /// Claims one quarantined job, and no other job.
    pub only_quarantined: bool,
}

impl Claim {
    /// A claim for these jobs, within the claim limit. With the default of `quarantined_at` no job is quarantined.
    pub fn new(worker: WorkerId, wanted: Vec<Wanted>, kinds: impl Into<Arc<[String]>>) -> Self {
        Self {
            worker,
            wanted,
            most: None,
            kinds: kinds.into(),
            bypass_limit: false,
            quarantined_at: u16::MAX,
            only_quarantined: false,
        }
    }

    /// The same claim, for a quarantined job. It returns one job at most.
    pub fn for_quarantined(&self) -> Self {
        Self { only_quarantined: true, ..self.clone() }
    }

    /// The same claim without any queue.
    pub fn clone_without_wanted(&self) -> Self {
        Self { wanted: Vec::new(), kinds: self.kinds.clone(), ..*self }
    }
}
