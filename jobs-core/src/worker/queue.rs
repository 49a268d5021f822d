//! One queue of a worker: its slots, and the prefetched jobs, which are claimed and wait for a slot.
//!
//! An operator may change the number of slots at any time. A running job is never stopped. So more slots may be busy
//! than there are now, and then no job starts until enough have ended.

mod wanted;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::Notify;

use super::gathering::Gatherings;
use super::paused_kinds::PausedKinds;
use super::prefetch::Prefetch;
use super::total_slots::TotalSlots;
use crate::context::JobContext;
use crate::job_id::JobId;

/// One queue.
pub(crate) struct Queue {
    name: Arc<str>,
    /// The number of slots.
    slots: AtomicUsize,
    /// How many slots are occupied.
    busy: AtomicUsize,
    /// The limit of all queues together, if there is one.
    total: Option<Arc<TotalSlots>>,
    /// Whether a job was claimed since the last look. Only kept for queues that may be forgotten.
    used: AtomicBool,
    /// Whether the queue is paused. Then nothing is prefetched.
    paused: AtomicBool,
    paused_kinds: Arc<PausedKinds>,
    /// The number of prefetched jobs in all queues. If it is zero, a worker with ten thousand queues need not check
    /// each.
    all_prefetched: Arc<AtomicUsize>,
    /// Best first.
    prefetched: Mutex<VecDeque<PrefetchedJob>>,
    /// When this many prefetched jobs are left, it is time to claim more.
    low: AtomicUsize,
    /// The most jobs that one slot takes at once.
    batch: AtomicUsize,
    /// The batches that wait for more jobs.
    pub(super) gatherings: Gatherings,
    pub(crate) prefetch: Prefetch,
    capacity_changed: Arc<Notify>,
}

/// A claimed job that has not started.
struct PrefetchedJob {
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
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
        if let Some(total) = &self.0.total {
            total.give_back();
        }
        self.0.capacity_changed.notify_one();
    }
}

impl Slot {
    pub(crate) fn queue(&self) -> &Queue {
        &self.0
    }
}

impl Queue {
    pub(super) fn new(
        name: Arc<str>,
        slots: usize,
        total: Option<Arc<TotalSlots>>,
        all_prefetched: Arc<AtomicUsize>,
        paused_kinds: Arc<PausedKinds>,
        capacity_changed: Arc<Notify>,
    ) -> Self {
        Self {
            name,
            slots: AtomicUsize::new(slots),
            busy: AtomicUsize::new(0),
            total,
            used: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            paused_kinds,
            all_prefetched,
            prefetched: Mutex::default(),
            low: AtomicUsize::new(0),
            batch: AtomicUsize::new(1),
            gatherings: Gatherings::default(),
            prefetch: Prefetch::default(),
            capacity_changed,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn prefetched(&self) -> MutexGuard<'_, VecDeque<PrefetchedJob>> {
        // Nothing panics while the lock is held.
        self.prefetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a prefetched job. Returns the job if its queue or kind is paused. Claims bring jobs best first, and mostly
    /// worse ones than those prefetched before. So the place of the new job is usually the last.
    pub(super) fn add_prefetched(&self, ctx: JobContext, now: Instant) -> Result<(), JobContext> {
        self.prefetch.claimed(ctx.claimed().args.len());
        let mut new = PrefetchedJob::new(ctx, now);
        let mut prefetched = self.prefetched();
        // A pause is stored before `take_paused` takes this lock. So a paused job is found here, or by `take_paused`.
        if self.is_paused(&new.ctx) {
            return Err(new.ctx);
        }
        if self.gatherings.room() > 0 {
            match self.gatherings.offer(new.ctx) {
                Ok(()) => return Ok(()),
                Err(ctx) => new.ctx = ctx,
            }
        }
        self.all_prefetched.fetch_add(1, Ordering::AcqRel);
        if prefetched.back().is_none_or(|last| last.rank <= new.rank) {
            prefetched.push_back(new);
            return Ok(());
        }
        let place = prefetched.partition_point(|other| other.rank <= new.rank);
        prefetched.insert(place, new);
        Ok(())
    }

    /// How many slots it has, how many of them are busy, and how many jobs are prefetched.
    pub(super) fn occupancy(&self) -> [usize; 3] {
        [self.slots.load(Ordering::Acquire), self.busy.load(Ordering::Acquire), self.prefetched().len()]
    }

    /// How many prefetched jobs have a slot of this queue. Others wait behind a batch.
    pub(super) fn about_to_start(&self) -> usize {
        let [slots, busy, held] = self.occupancy();
        held.min(slots.saturating_sub(busy))
    }

    pub(super) fn is_paused(&self, ctx: &JobContext) -> bool {
        self.paused.load(Ordering::Acquire) || self.paused_kinds.contain(ctx.kind())
    }

    /// Pauses or resumes the queue.
    pub(super) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    /// Takes out the prefetched jobs that are paused.
    pub(super) fn take_paused(&self) -> Vec<JobContext> {
        self.take(|job| self.is_paused(&job.ctx))
    }

    /// Takes out all prefetched jobs, if one of them has waited for at least `limit`.
    pub(super) fn take_overdue(&self, limit: Duration, now: Instant) -> Vec<JobContext> {
        if !self.prefetched().iter().any(|job| now.duration_since(job.since) >= limit) {
            return Vec::new();
        }
        self.prefetch.stalled();
        self.take(|_| true)
    }

    fn take(&self, is_taken: impl Fn(&PrefetchedJob) -> bool) -> Vec<JobContext> {
        let mut prefetched = self.prefetched();
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = prefetched.drain(..).partition(is_taken);
        *prefetched = kept;
        self.all_prefetched.fetch_sub(taken.len(), Ordering::AcqRel);
        taken.into_iter().map(|job| job.ctx).collect()
    }

    /// Notes that a job was claimed, for [`take_used`](Self::take_used).
    pub(super) fn note_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether a job was claimed since the last call, or is still here.
    pub(super) fn take_used(&self) -> bool {
        let used = self.used.swap(false, Ordering::Relaxed);
        used || self.busy.load(Ordering::Acquire) > 0 || !self.prefetched().is_empty()
    }

    /// Changes the number of slots. Returns whether it was another number.
    pub(super) fn set_slots(&self, slots: usize) -> bool {
        let changed = self.slots.swap(slots, Ordering::AcqRel) != slots;
        if changed {
            self.capacity_changed.notify_one();
        }
        changed
    }

    /// The best prefetched job, for the slot of a job that has ended. `None` if none is left, or if more slots are busy
    /// than there are now.
    pub(crate) fn next(&self) -> Option<JobContext> {
        if self.busy.load(Ordering::Acquire) > self.slots.load(Ordering::Acquire) {
            return None;
        }
        let mut prefetched = self.prefetched();
        let next = prefetched.pop_front()?;
        self.all_prefetched.fetch_sub(1, Ordering::AcqRel);
        if prefetched.len() == self.low.load(Ordering::Relaxed) {
            self.capacity_changed.notify_one();
        }
        Some(next.ctx)
    }

    /// From now on a free slot may take this many jobs at once, so this many are prefetched for it.
    pub(crate) fn expect_batches(&self, most: usize) {
        self.batch.fetch_max(most, Ordering::AcqRel);
    }

    /// Tells the fetcher that a batch waits for more jobs.
    pub(super) fn wants_more(&self) {
        self.capacity_changed.notify_one();
    }

    /// Removes and returns the best prefetched jobs of this kind for which `fits` returns `true`, at most `most`. They
    /// run in a batch with a job that was removed before.
    pub(crate) fn take_kind(&self, kind: &str, most: usize, fits: impl Fn(&JobContext) -> bool) -> Vec<JobContext> {
        if most == 0 {
            return Vec::new();
        }
        let mut prefetched = self.prefetched();
        let mut left = most;
        let mut is_taken = |job: &PrefetchedJob| {
            let taken = left > 0 && job.ctx.kind() == kind && fits(&job.ctx);
            left -= usize::from(taken);
            taken
        };
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = prefetched.drain(..).partition(&mut is_taken);
        *prefetched = kept;
        self.all_prefetched.fetch_sub(taken.len(), Ordering::AcqRel);
        if prefetched.len() <= self.low.load(Ordering::Relaxed) {
            self.capacity_changed.notify_one();
        }
        taken.into_iter().map(|job| job.ctx).collect()
    }

    /// A prefetched job and a slot for it, if there are both.
    pub(crate) fn start(self: &Arc<Self>) -> Option<(Slot, JobContext)> {
        let mut prefetched = self.prefetched();
        if prefetched.is_empty() {
            return None;
        }
        let slots = self.slots.load(Ordering::Acquire);
        let one_more = |busy: usize| (busy < slots).then_some(busy + 1);
        self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        if self.total.as_ref().is_some_and(|total| !total.take()) {
            self.busy.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let next = prefetched.pop_front()?;
        self.all_prefetched.fetch_sub(1, Ordering::AcqRel);
        Some((Slot(self.clone()), next.ctx))
    }
}
