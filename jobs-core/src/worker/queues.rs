//! The queues this worker serves: the slots of each, and the jobs in hand, which are claimed and wait for a slot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{self, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::pace::Pace;
use crate::context::JobContext;
use crate::job::JobId;
use crate::storage::Wanted;

/// A claim asks for at most so many jobs ahead of the slots of a queue. It is half of the most that are in hand, so that
/// there is something to run while a claim is under way.
const MOST_AT_ONCE: usize = 1000;

/// All queues of a worker, by name.
pub(crate) struct Queues {
    queues: BTreeMap<Arc<str>, Arc<Queue>>,
    all_in_hand: Arc<AtomicUsize>,
    stirred: Arc<Notify>,
}

/// One queue.
pub(crate) struct Queue {
    name: Arc<str>,
    limit: usize,
    free: AtomicUsize,
    /// Jobs in hand in all queues: with ten thousand of them nobody looks into each for nothing.
    all_in_hand: Arc<AtomicUsize>,
    /// Best first.
    in_hand: Mutex<VecDeque<InHand>>,
    /// With this many left in hand it is time to claim more.
    low: AtomicUsize,
    pub(crate) pace: Pace,
    stirred: Arc<Notify>,
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
        self.0.stirred.notify_one();
    }
}

impl Slot {
    pub(crate) fn queue(&self) -> &Queue {
        &self.0
    }
}

impl Queue {
    fn in_hand(&self) -> MutexGuard<'_, VecDeque<InHand>> {
        // Nothing panics while it is held.
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims bring jobs best first, and mostly worse ones than those in hand: the place of a new one is the last.
    fn take_in_hand(&self, new: InHand) {
        let mut in_hand = self.in_hand();
        self.all_in_hand.fetch_add(1, atomic::Ordering::AcqRel);
        if in_hand.back().is_none_or(|last| last.rank <= new.rank) {
            return in_hand.push_back(new);
        }
        let place = in_hand.partition_point(|other| other.rank <= new.rank);
        in_hand.insert(place, new);
    }

    /// The best job in hand.
    pub(crate) fn next(&self) -> Option<JobContext> {
        let mut in_hand = self.in_hand();
        let next = in_hand.pop_front()?;
        self.all_in_hand.fetch_sub(1, atomic::Ordering::AcqRel);
        if in_hand.len() == self.low.load(atomic::Ordering::Relaxed) {
            self.stirred.notify_one();
        }
        Some(next.ctx)
    }

    /// A job in hand and a place for it, if there are both.
    pub(crate) fn start(self: &Arc<Self>) -> Option<(Slot, JobContext)> {
        let mut in_hand = self.in_hand();
        if in_hand.is_empty() {
            return None;
        }
        let one_less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(atomic::Ordering::AcqRel, atomic::Ordering::Acquire, one_less).ok()?;
        let next = in_hand.pop_front()?;
        self.all_in_hand.fetch_sub(1, atomic::Ordering::AcqRel);
        Some((Slot(self.clone()), next.ctx))
    }

    fn wanted(&self) -> Option<Wanted> {
        let held = if self.all_in_hand.load(atomic::Ordering::Acquire) == 0 { 0 } else { self.in_hand().len() };
        let free = self.free.load(atomic::Ordering::Acquire);
        let ahead = self.pace.ahead(self.limit);
        self.low.store(ahead / 2, atomic::Ordering::Relaxed);
        if free == 0 && (ahead == 0 || held > ahead / 2) {
            return None;
        }
        let ahead = ahead.saturating_sub(held.saturating_sub(free)).min(MOST_AT_ONCE);
        let slots = free.saturating_sub(held);
        (slots + ahead > 0).then(|| Wanted { queue: self.name.clone(), slots, ahead })
    }
}

impl Queues {
    pub(crate) fn new(limits: &BTreeMap<String, usize>) -> Self {
        let (stirred, all_in_hand) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let queue = |(name, limit): (&String, &usize)| {
            let name: Arc<str> = name.as_str().into();
            let queue = Queue {
                name: name.clone(),
                limit: *limit,
                free: AtomicUsize::new(*limit),
                all_in_hand: all_in_hand.clone(),
                in_hand: Mutex::default(),
                low: AtomicUsize::new(0),
                pace: Pace::default(),
                stirred: stirred.clone(),
            };
            (name, Arc::new(queue))
        };
        let queues = limits.iter().map(queue).collect();
        Self { queues, all_in_hand: all_in_hand.clone(), stirred: stirred.clone() }
    }

    /// Those that may have a job in hand.
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

    /// Takes claimed jobs in hand; answers those whose queue is not served.
    pub(crate) fn push(&self, jobs: Vec<JobContext>) -> Vec<JobContext> {
        let now = Instant::now();
        let mut strangers = Vec::new();
        for ctx in jobs {
            let Some(queue) = self.queues.get(ctx.queue()) else {
                strangers.push(ctx);
                continue;
            };
            queue.pace.claimed(ctx.claimed().args.len());
            queue.take_in_hand(InHand::new(ctx, now));
        }
        strangers
    }

    /// Whether any job is in hand.
    pub(crate) fn any_in_hand(&self) -> bool {
        self.all_in_hand.load(atomic::Ordering::Acquire) > 0
    }

    /// Takes the jobs of each queue out of hand that has held one for longer than this.
    pub(crate) fn overdue(&self, limit: Duration) -> Vec<JobContext> {
        let (mut overdue, now) = (Vec::new(), Instant::now());
        for queue in self.iter() {
            let mut in_hand = queue.in_hand();
            if in_hand.iter().any(|job| now.duration_since(job.since) >= limit) {
                queue.pace.stalled();
                self.all_in_hand.fetch_sub(in_hand.len(), atomic::Ordering::AcqRel);
                overdue.extend(in_hand.drain(..).map(|job| job.ctx));
            }
        }
        overdue
    }

    /// Waits until a slot is freed or a hand is nearly empty; what happened since the last wait counts.
    pub(crate) async fn stirred(&self) {
        self.stirred.notified().await;
    }
}
