//! The queues this worker serves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::paused_kinds::PausedKinds;
use super::queue::Queue;
use crate::context::JobContext;
use crate::storage::Wanted;

/// All queues of a worker, by name.
pub(crate) struct Queues {
    queues: BTreeMap<Arc<str>, Arc<Queue>>,
    /// The number of prefetched jobs in all queues. If it is zero, a worker with ten thousand queues need not check
    /// each.
    all_prefetched: Arc<AtomicUsize>,
    paused_kinds: Arc<PausedKinds>,
    capacity_changed: Arc<Notify>,
}

impl Queues {
    pub(crate) fn new(slots: &BTreeMap<String, usize>) -> Self {
        let (capacity_changed, all_prefetched) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let paused_kinds = Arc::<PausedKinds>::default();
        let queue = |(name, slots): (&String, &usize)| {
            let name: Arc<str> = name.as_str().into();
            let (all, kinds, changed) = (all_prefetched.clone(), paused_kinds.clone(), capacity_changed.clone());
            (name.clone(), Arc::new(Queue::new(name, *slots, all, kinds, changed)))
        };
        let queues = slots.iter().map(queue).collect();
        Self { queues, all_prefetched, paused_kinds, capacity_changed }
    }

    /// Prefetches for batches of this size from now on, if the queue is served.
    pub(crate) fn expect_batches(&self, queue: &str, most: usize) {
        if let Some(queue) = self.queues.get(queue) {
            queue.expect_batches(most);
        }
    }

    /// The queues that may have a prefetched job.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Queue>> {
        let none = self.all_prefetched.load(Ordering::Acquire) == 0;
        self.queues.values().take(if none { 0 } else { usize::MAX })
    }

    /// How busy each queue is, in the order of their names.
    pub(crate) fn loads(&self) -> Vec<(String, [usize; 3])> {
        let load = |queue: &Arc<Queue>| (queue.name().to_string(), queue.occupancy());
        self.queues.values().map(load).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// What to claim now, for free slots and for prefetch, in the order of the queues' names.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.queues.values().filter_map(|queue| queue.wanted()).collect()
    }

    /// Whether a queue wants jobs now that is not among `before`, the queues of an earlier claim.
    pub(crate) fn wants_others_than(&self, before: &[Wanted]) -> bool {
        // Both lists are in the order of the queues' names.
        let mut before = before.iter().peekable();
        self.queues.values().any(|queue| {
            let was_wanted = before.next_if(|wanted| wanted.queue == *queue.name()).is_some();
            !was_wanted && queue.wanted().is_some()
        })
    }

    /// Puts claimed jobs into their queues. Returns the jobs whose queue is not served, and those that were paused
    /// after the claim had begun.
    pub(crate) fn push(&self, jobs: Vec<JobContext>) -> Vec<JobContext> {
        let now = Instant::now();
        let mut refused = Vec::new();
        for ctx in jobs {
            let Some(queue) = self.queues.get(ctx.queue()) else {
                refused.push(ctx);
                continue;
            };
            if let Err(paused) = queue.add_prefetched(ctx, now) {
                refused.push(paused);
            }
        }
        refused
    }

    /// Whether any job is prefetched.
    pub(crate) fn any_prefetched(&self) -> bool {
        self.all_prefetched.load(Ordering::Acquire) > 0
    }

    /// Takes all prefetched jobs out of each queue that has held one of them for at least `limit`.
    pub(crate) fn overdue(&self, limit: Duration) -> Vec<JobContext> {
        let now = Instant::now();
        self.iter().flat_map(|queue| queue.take_overdue(limit, now)).collect()
    }

    /// Sets the slots of each queue: those of `overrides`, else those that the worker was started with. Returns the
    /// queues that have another number of slots now.
    pub(crate) fn set_slots(
        &self,
        started_with: &BTreeMap<String, usize>,
        overrides: &BTreeMap<String, usize>,
    ) -> Vec<(Arc<str>, usize)> {
        let mut changed = Vec::new();
        for (name, queue) in &self.queues {
            let slots = overrides.get(&**name).or_else(|| started_with.get(&**name));
            if let Some(slots) = slots
                && queue.set_slots(*slots)
            {
                changed.push((name.clone(), *slots));
            }
        }
        changed
    }

    /// Pauses these queues and kinds, and no others.
    pub(crate) fn pause(&self, queues: &BTreeSet<String>, kinds: &BTreeSet<String>) {
        self.paused_kinds.set(kinds);
        self.queues.iter().for_each(|(name, queue)| queue.set_paused(queues.contains(&**name)));
    }

    /// Takes the prefetched jobs of paused queues and kinds out.
    pub(crate) fn take_paused(&self) -> Vec<JobContext> {
        self.iter().flat_map(|queue| queue.take_paused()).collect()
    }

    /// Tells the fetcher that jobs were prefetched.
    pub(crate) fn notify(&self) {
        self.capacity_changed.notify_one();
    }

    /// Waits until a slot is freed or few prefetched jobs are left. An event since the last wait counts, too.
    pub(crate) async fn capacity_changed(&self) {
        self.capacity_changed.notified().await;
    }
}
