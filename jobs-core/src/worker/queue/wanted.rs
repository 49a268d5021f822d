//! How many jobs of a queue the next claim asks for.

use std::sync::atomic::Ordering;

use super::Queue;
use crate::storage::Wanted;

/// A claim asks for at most this many prefetched jobs of a queue. It is half of the most that are prefetched, so that
/// there are jobs to run while a claim is under way.
const MOST_AT_ONCE: usize = 1000;

impl Queue {
    /// What to claim for its free slots and for prefetch. `None`: nothing now.
    pub(in super::super) fn wanted(&self) -> Option<Wanted> {
        let held = if self.all_prefetched.load(Ordering::Acquire) == 0 { 0 } else { self.prefetched().len() };
        let slots = self.slots.load(Ordering::Acquire);
        let free = slots.saturating_sub(self.busy.load(Ordering::Acquire));
        let batch = self.batch.load(Ordering::Acquire);
        let most = self.prefetch.most(slots).max(self.prefetch.most_for_batches(free, batch));
        // The jobs that are prefetched now do not fit the batches that wait. Such jobs must not become too many.
        let gathers = self.gatherings.room().min(batch.saturating_sub(held));
        self.low.store(most / 2, Ordering::Relaxed);
        if free == 0 && gathers == 0 && (most == 0 || held > most / 2) {
            return None;
        }
        let prefetch = most.saturating_sub(held.saturating_sub(free)).max(gathers).min(MOST_AT_ONCE);
        let to_start = free.saturating_sub(held);
        (to_start + prefetch > 0).then(|| Wanted { queue: self.name.clone(), slots: to_start, prefetch })
    }

    /// What to claim for a worker with a limit of all queues together, of which this many slots are free. It prefetches
    /// nothing, except for a batch that waits and has a slot already.
    pub(in super::super) fn wanted_within(&self, free: usize) -> Option<Wanted> {
        let (slots, busy) = (self.slots.load(Ordering::Acquire), self.busy.load(Ordering::Acquire));
        let held = self.prefetched().len();
        let to_start = slots.saturating_sub(busy).saturating_sub(held).min(free);
        let prefetch = self.gatherings.room().min(self.batch.load(Ordering::Acquire).saturating_sub(held));
        (to_start + prefetch > 0).then(|| Wanted { queue: self.name.clone(), slots: to_start, prefetch })
    }
}
