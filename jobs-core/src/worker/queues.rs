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
use crate::job_id::JobId;
use crate::storage::Wanted;

/// A claim asks for at most this many prefetched jobs of a queue. It is half of the most that are prefetched, so that
/// there are jobs to run while a claim is under way.
const MOST_AT_ONCE: usize = 1000;

/// All queues of a worker, by name.
pub(crate) struct Queues {
    queues: BTreeMap<Arc<str>, Arc<Queue>>,
    all_prefetched: Arc<AtomicUsize>,
    capacity_changed: Arc<Notify>,
}

/// One queue.
pub(crate) struct Queue {
    name: Arc<str>,
    limit: usize,
    free: AtomicUsize,
    /// The number of prefetched jobs in all queues. If it is zero, a worker with ten thousand queues need not check
    /// each.
    all_prefetched: Arc<AtomicUsize>,
    /// Best first.
    prefetched: Mutex<VecDeque<PrefetchedJob>>,
    /// When this many prefetched jobs are left, it is time to claim more.
    low: AtomicUsize,
    pub(crate) prefetch: Prefetch,
    capacity_changed: Arc<Notify>,
}

/// A claimed job that has not started.
pub(crate) struct PrefetchedJob {
    /// A smaller rank is better.
    rank: (Reverse<i16>, DateTime<Utc>, JobId),
    ctx: JobContext,
    since: Instant,
}

impl PrefetchedJob {
    fn new(ctx: JobContext, since: Instant) -> Self {
        let job = ctx.claimed();
        Self { rank: (Reverse(job.priority), job.run_at, job.lease.job), ctx, since }
    }
}

/// The place of one running job. It is freed when the handler has really ended, not when its time was over.
pub(crate) struct Slot(Arc<Queue>);

impl Drop for Slot {
    fn drop(&mut self) {
        // The slot is freed before the notification, so that the waiter finds it free.
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
    fn prefetched(&self) -> MutexGuard<'_, VecDeque<PrefetchedJob>> {
        // Nothing panics while the lock is held.
        self.prefetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a prefetched job. Claims bring jobs best first, and mostly worse ones than those prefetched before. So the
    /// place of the new job is usually the last.
    fn add_prefetched(&self, new: PrefetchedJob) {
        let mut prefetched = self.prefetched();
        self.all_prefetched.fetch_add(1, atomic::Ordering::AcqRel);
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
        self.all_prefetched.fetch_sub(1, atomic::Ordering::AcqRel);
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
        self.all_prefetched.fetch_sub(1, atomic::Ordering::AcqRel);
        Some((Slot(self.clone()), next.ctx))
    }

    fn wanted(&self) -> Option<Wanted> {
        let held = if self.all_prefetched.load(atomic::Ordering::Acquire) == 0 { 0 } else { self.prefetched().len() };
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
        let (capacity_changed, all_prefetched) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let queue = |(name, limit): (&String, &usize)| {
            let name: Arc<str> = name.as_str().into();
            let queue = Queue {
                name: name.clone(),
                limit: *limit,
                free: AtomicUsize::new(*limit),
                all_prefetched: all_prefetched.clone(),
                prefetched: Mutex::default(),
                low: AtomicUsize::new(0),
                prefetch: Prefetch::default(),
                capacity_changed: capacity_changed.clone(),
            };
            (name, Arc::new(queue))
        };
        let queues = limits.iter().map(queue).collect();
        Self { queues, all_prefetched: all_prefetched.clone(), capacity_changed: capacity_changed.clone() }
    }

    /// The queues that may have a prefetched job.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Queue>> {
        let none = self.all_prefetched.load(atomic::Ordering::Acquire) == 0;
        self.queues.values().take(if none { 0 } else { usize::MAX })
    }

    /// How busy each queue is, in the order of their names.
    pub(crate) fn loads(&self) -> Vec<(String, [usize; 3])> {
        let load = |queue: &Arc<Queue>| {
            let running = queue.limit.saturating_sub(queue.free.load(atomic::Ordering::Acquire));
            (queue.name.to_string(), [queue.limit, running, queue.prefetched().len()])
        };
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
            let was_wanted = before.next_if(|wanted| wanted.queue == queue.name).is_some();
            !was_wanted && queue.wanted().is_some()
        })
    }

    /// Puts claimed jobs into their queues. Returns the jobs whose queue is not served.
    pub(crate) fn push(&self, jobs: Vec<JobContext>) -> Vec<JobContext> {
        let now = Instant::now();
        let mut strangers = Vec::new();
        for ctx in jobs {
            let Some(queue) = self.queues.get(ctx.queue()) else {
                strangers.push(ctx);
                continue;
            };
            queue.prefetch.claimed(ctx.claimed().args.len());
            queue.add_prefetched(PrefetchedJob::new(ctx, now));
        }
        strangers
    }

    /// Whether any job is prefetched.
    pub(crate) fn any_prefetched(&self) -> bool {
        self.all_prefetched.load(atomic::Ordering::Acquire) > 0
    }

    /// Takes all prefetched jobs out of each queue that has held one of them for at least `limit`.
    pub(crate) fn overdue(&self, limit: Duration) -> Vec<JobContext> {
        let (mut overdue, now) = (Vec::new(), Instant::now());
        for queue in self.iter() {
            let mut prefetched = queue.prefetched();
            if prefetched.iter().any(|job| now.duration_since(job.since) >= limit) {
                queue.prefetch.stalled();
                self.all_prefetched.fetch_sub(prefetched.len(), atomic::Ordering::AcqRel);
                overdue.extend(prefetched.drain(..).map(|job| job.ctx));
            }
        }
        overdue
    }

    /// Waits until a slot is freed or few prefetched jobs are left. An event since the last wait counts, too.
    pub(crate) async fn capacity_changed(&self) {
        self.capacity_changed.notified().await;
    }
}
