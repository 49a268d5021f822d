//! Slots: how many jobs of each queue may run at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

pub(crate) struct Slots {
    queues: BTreeMap<String, Arc<Semaphore>>,
    freed: Arc<Notify>,
}

/// One running job's place. Freed when the handler has really ended, not when its time was up.
pub(crate) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The place first, the word after: whoever hears it finds the place.
        drop(self.permit.take());
        self.freed.notify_one();
    }
}

impl Slots {
    pub(crate) fn new(queues: &BTreeMap<String, usize>) -> Self {
        let queues = queues.iter().map(|(queue, slots)| (queue.clone(), Arc::new(Semaphore::new(*slots)))).collect();
        Self { queues, freed: Arc::default() }
    }

    /// Queues with free slots, and how many.
    pub(crate) fn free(&self) -> Vec<(String, usize)> {
        let free = self.queues.iter().map(|(queue, slots)| (queue.clone(), slots.available_permits()));
        free.filter(|(_, slots)| *slots > 0).collect()
    }

    /// Takes a slot; `None` if the queue is full or not served.
    pub(crate) fn take(&self, queue: &str) -> Option<Slot> {
        let permit = self.queues.get(queue)?.clone().try_acquire_owned().ok()?;
        Some(Slot { permit: Some(permit), freed: self.freed.clone() })
    }

    /// Waits until a slot is freed; one freed since the last wait counts.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_freed_slot_is_heard_and_there() {
        let slots = Slots::new(&BTreeMap::from([("mail".to_owned(), 1)]));
        let slot = slots.take("mail").expect("free");
        assert!(slots.take("mail").is_none() && slots.free().is_empty());
        drop(slot);
        slots.freed().await;
        assert_eq!(slots.free(), [("mail".to_owned(), 1)]);
    }
}
