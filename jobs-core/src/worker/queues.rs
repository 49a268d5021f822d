//! The queues this worker serves: the slots of each, and the prefetched jobs, which are claimed and wait for a slot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{self, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::prefetch::Prefetch;
use crate::context::JobContext;
use crate::job::JobId;
use crate::storage::Wanted;

/// A claim asks for at most so many jobs ahead of the slots of a queue. It is half of the most that are prefetched, so that
/// there is something to run while a claim is under way.
const MOST_AT_ONCE: usize = 1000;

/// All queues of a worker, by name.
pub(crate) struct Queues {
    queues: BTreeMap<Arc<str>, Arc<Queue>>,
    all_in_hand: Arc<AtomicUsize>,
    capacity_changed: Arc<Notify>,
}

/// One queue.
pub(crate) struct Queue {
    name: Arc<str>,
    limit: usize,
    free: AtomicUsize,
    /// Prefetched jobs in all queues: with ten thousand of them nobody looks into each for nothing.
    all_in_hand: Arc<AtomicUsize>,
    /// Best first.
    prefetched: Mutex<VecDeque<InHand>>,
    /// With this many prefetched jobs left it is time to claim more.
    low: AtomicUsize,
    pub(crate) prefetch: Prefetch,
    capacity_changed: Arc<Notify>,
}

/// A claimed job that has not started.
pub(crate) struct InHand {
    /// The smaller the better.
    rank: (Reverse<i16>, DateTime<Utc>, JobId),
    ctx: JobContext,
    since: Instant,
}

impl InHand {
    fn new(ctx: JobContext, since: Instant) -> Self {
        let job = ctx.claimed();
        Self { rank: (Reverse(job.priority), job.run_at, job.lease.job), ctx, since }
    }
}

/// One running job's place. Freed when the handler has really ended, not when its time was up.
pub(crate) struct Slot(Arc<Queue>);

impl Drop for Slot {
    fn drop(&mut self) {
        // The place first, the word after: whoever hears it finds the place.
        self.0.free.fetch_add(1, atomic::Ordering::AcqRel);
        self.0.capacity_changed.notify_one();
    }
}

impl Slot {
    pub(crate) fn queue(&self) -> &Queue {
        &self.0
    }
}

impl Queue {
    fn prefetched(&self) -> MutexGuard<'_, VecDeque<InHand>> {
        // Nothing panics while it is held.
        self.prefetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims bring jobs best first, and mostly worse ones than those prefetched before: the place of a new one is the last.
    fn take_in_hand(&self, new: InHand) {
        let mut prefetched = self.prefetched();
        self.all_in_hand.fetch_add(1, atomic::Ordering::AcqRel);
        if prefetched.back().is_none_or(|last| last.rank <= new.rank) {
            return prefetched.push_back(new);
        }
        let place = prefetched.partition_point(|other| other.rank <= new.rank);
        prefetched.insert(place, new);
    }

    /// The best prefetched job.
    pub(crate) fn next(&self) -> Option<JobContext> {
        let mut prefetched = self.prefetched();
        let next = prefetched.pop_front()?;
        self.all_in_hand.fetch_sub(1, atomic::Ordering::AcqRel);
        if prefetched.len() == self.low.load(atomic::Ordering::Relaxed) {
            self.capacity_changed.notify_one();
        }
        Some(next.ctx)
    }

    /// A prefetched job and a slot for it, if there are both.
    pub(crate) fn start(self: &Arc<Self>) -> Option<(Slot, JobContext)> {
        let mut prefetched = self.prefetched();
        if prefetched.is_empty() {
            return None;
        }
        let one_less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(atomic::Ordering::AcqRel, atomic::Ordering::Acquire, one_less).ok()?;
        let next = prefetched.pop_front()?;
        self.all_in_hand.fetch_sub(1, atomic::Ordering::AcqRel);
        Some((Slot(self.clone()), next.ctx))
    }

    fn wanted(&self) -> Option<Wanted> {
        let held = if self.all_in_hand.load(atomic::Ordering::Acquire) == 0 { 0 } else { self.prefetched().len() };
        let free = self.free.load(atomic::Ordering::Acquire);
        let most = self.prefetch.most(self.limit);
        self.low.store(most / 2, atomic::Ordering::Relaxed);
        if free == 0 && (most == 0 || held > most / 2) {
            return None;
        }
        let prefetch = most.saturating_sub(held.saturating_sub(free)).min(MOST_AT_ONCE);
        let slots = free.saturating_sub(held);
        (slots + prefetch > 0).then(|| Wanted { queue: self.name.clone(), slots, prefetch })
    }
}

impl Queues {
    pub(crate) fn new(limits: &BTreeMap<String, usize>) -> Self {
        let (capacity_changed, all_in_hand) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let queue = |(name, limit): (&String, &usize)| {
            let name: Arc<str> = name.as_str().into();
            let queue = Queue {
                name: name.clone(),
                limit: *limit,
                free: AtomicUsize::new(*limit),
                all_in_hand: all_in_hand.clone(),
                prefetched: Mutex::default(),
                low: AtomicUsize::new(0),
                prefetch: Prefetch::default(),
                capacity_changed: capacity_changed.clone(),
            };
            (name, Arc::new(queue))
        };
        let queues = limits.iter().map(queue).collect();
        Self { queues, all_in_hand: all_in_hand.clone(), capacity_changed: capacity_changed.clone() }
    }

    /// Those that may have a prefetched job.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Queue>> {
        let none = self.all_in_hand.load(atomic::Ordering::Acquire) == 0;
        self.queues.values().take(if none { 0 } else { usize::MAX })
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// What to claim now: for free slots, and ahead of them. In the order of their names.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.queues.values().filter_map(|queue| queue.wanted()).collect()
    }

    /// Whether something is wanted now of a queue that is not among these, which were wanted before.
    pub(crate) fn wants_others_than(&self, before: &[Wanted]) -> bool {
        // Both are in the order of their names.
        let mut before = before.iter().peekable();
        self.queues.values().any(|queue| {
            let was_wanted = before.next_if(|wanted| wanted.queue == queue.name).is_some();
            !was_wanted && queue.wanted().is_some()
        })
    }

    /// Queues claimed jobs; answers those whose queue is not served.
    pub(crate) fn push(&self, jobs: Vec<JobContext>) -> Vec<JobContext> {
        let now = Instant::now();
        let mut strangers = Vec::new();
        for ctx in jobs {
            let Some(queue) = self.queues.get(ctx.queue()) else {
                strangers.push(ctx);
                continue;
            };
            queue.prefetch.claimed(ctx.claimed().args.len());
            queue.take_in_hand(InHand::new(ctx, now));
        }
        strangers
    }

    /// Whether any job is prefetched.
    pub(crate) fn any_prefetched(&self) -> bool {
        self.all_in_hand.load(atomic::Ordering::Acquire) > 0
    }

    /// Takes the jobs of each queue out of hand that has held one for longer than this.
    pub(crate) fn overdue(&self, limit: Duration) -> Vec<JobContext> {
        let (mut overdue, now) = (Vec::new(), Instant::now());
        for queue in self.iter() {
            let mut prefetched = queue.prefetched();
            if prefetched.iter().any(|job| now.duration_since(job.since) >= limit) {
                queue.prefetch.stalled();
                self.all_in_hand.fetch_sub(prefetched.len(), atomic::Ordering::AcqRel);
                overdue.extend(prefetched.drain(..).map(|job| job.ctx));
            }
        }
        overdue
    }

    /// Waits until a slot is freed or a hand is nearly empty; what happened since the last wait counts.
    pub(crate) async fn capacity_changed(&self) {
        self.capacity_changed.notified().await;
    }
}
