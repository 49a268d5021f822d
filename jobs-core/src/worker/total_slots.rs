//! The limit of the slots of all queues together. Most workers have none.
//!
//! The queues take turns: a claim names the queues that may run a job in a rotation, and asks for no more jobs than may
//! start at once. The first queues that have due jobs get the slots, and the next claim begins after the last of them.
//! Nothing is prefetched, because a queue with prefetched jobs would keep its slots, while other queues wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lease::ClaimedJob;
use crate::storage::{Claim, Wanted};

/// How many jobs run at once in all queues, and whose turn it is.
pub(super) struct TotalSlots {
    most: usize,
    busy: AtomicUsize,
    /// The queue that got the last slot.
    last: Mutex<Option<Arc<str>>>,
}

impl TotalSlots {
    pub(super) fn new(most: usize) -> Self {
        Self { most, busy: AtomicUsize::new(0), last: Mutex::default() }
    }

    /// Takes a slot. Returns `false` if none is free.
    pub(super) fn take(&self) -> bool {
        let one_more = |busy: usize| (busy < self.most).then_some(busy + 1);
        self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    pub(super) fn give_back(&self) {
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn free(&self) -> usize {
        self.most.saturating_sub(self.busy.load(Ordering::Acquire))
    }

    /// Begins with the queue whose turn it is. The queues are in the order of their names.
    pub(super) fn in_turn(&self, wanted: &mut [Wanted]) {
        if let Some(last) = &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            let first = wanted.partition_point(|one| one.queue <= *last);
            wanted.rotate_left(first);
        }
    }

    /// Records which queues got slots.
    pub(super) fn claimed(&self, claim: &Claim, jobs: &[ClaimedJob]) {
        let got_one = |wanted: &&Wanted| jobs.iter().any(|job| *job.queue == *wanted.queue);
        if let Some(last) = claim.wanted.iter().rev().find(got_one) {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last.queue.clone());
        }
    }
}
