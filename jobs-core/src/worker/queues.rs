//! The queues of this worker: those that it names, and those that were found for its patterns.
//!
//! A queue that fits a pattern is added when a job waits in it, and forgotten after [`FORGET_AFTER`] without jobs, so
//! that queues that were used once do not stay. Only this file adds and removes queues.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::live::Live;
use super::paused_kinds::PausedKinds;
use super::queue::Queue;
use super::served::Served;
use super::settings::Settings;
use super::total_slots::TotalSlots;
use crate::context::JobContext;
use crate::lease::ClaimedJob;
use crate::storage::{Claim, Wanted};

/// A queue that was found for a pattern is forgotten after this time without jobs. If it has jobs again, it is found
/// again.
const FORGET_AFTER: Duration = Duration::from_secs(60);

type ByName = BTreeMap<Arc<str>, Arc<Queue>>;

/// All queues of a worker, by name.
pub(crate) struct Queues {
    served: Served,
    queues: RwLock<ByName>,
    /// The queues that were found for a pattern, and when each had a job last.
    found: Mutex<HashMap<Arc<str>, Instant>>,
    live: Arc<Live>,
    /// How large the batches of queues are, see [`Queue::expect_batches`].
    batches: Vec<(&'static str, usize)>,
    total: Option<Arc<TotalSlots>>,
    /// The number of prefetched jobs in all queues. If it is zero, a worker with ten thousand queues need not check
    /// each.
    all_prefetched: Arc<AtomicUsize>,
    paused_kinds: Arc<PausedKinds>,
    capacity_changed: Arc<Notify>,
}

impl Queues {
    pub(super) fn new(settings: &Settings, live: Arc<Live>, batches: Vec<(&'static str, usize)>) -> Self {
        let queues = Self {
            served: Served::new(&settings.queues),
            queues: RwLock::default(),
            found: Mutex::default(),
            live,
            batches,
            total: settings.slots_total.map(|most| Arc::new(TotalSlots::new(most))),
            all_prefetched: Arc::default(),
            paused_kinds: Arc::default(),
            capacity_changed: Arc::default(),
        };
        queues.served.named().for_each(|name| drop(queues.get_or_add(&mut queues.write(), name)));
        queues
    }

    // Nothing panics while one of these locks is held.
    fn read(&self) -> RwLockReadGuard<'_, ByName> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ByName> {
        self.queues.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue, which is added if it is new. `None` if it is not served.
    ///
    /// The settings of operators are read under the lock of the queues. The settings watcher replaces them first, and
    /// then changes all queues. So a queue that it does not see has the new settings.
    fn get_or_add(&self, queues: &mut ByName, name: &str) -> Option<Arc<Queue>> {
        if let Some(queue) = queues.get(name) {
            return Some(queue.clone());
        }
        let started_with = self.served.slots_of(name)?;
        let overrides = self.live.overrides();
        let queue = Queue::new(
            name.into(),
            overrides.slots.get(name).copied().unwrap_or(started_with),
            self.total.clone(),
            self.all_prefetched.clone(),
            self.paused_kinds.clone(),
            self.capacity_changed.clone(),
        );
        queue.set_paused(overrides.paused_queues.contains(name));
        self.batches.iter().filter(|(of, _)| *of == name).for_each(|(_, most)| queue.expect_batches(*most));
        let queue = Arc::new(queue);
        queues.insert(queue.name().clone(), queue.clone());
        Some(queue)
    }

    /// Whether more queues may be found.
    pub(crate) fn have_patterns(&self) -> bool {
        self.served.has_patterns()
    }

    /// Adds those of these queues, in which jobs wait, that fit a pattern. Forgets the queues that were found for a
    /// pattern and have had no job for long. Returns whether a queue was added.
    pub(crate) fn found(&self, waiting: &[String], now: Instant) -> bool {
        let mut queues = self.write();
        let before = queues.len();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for name in waiting.iter().filter(|name| !self.served.is_named(name)) {
            if let Some(queue) = self.get_or_add(&mut queues, name) {
                found.insert(queue.name().clone(), now);
            }
        }
        let is_new = queues.len() > before;
        if is_new {
            self.capacity_changed.notify_one();
        }
        // Claimed jobs have added the others.
        for name in queues.keys().filter(|name| !self.served.is_named(name)) {
            if !found.contains_key(name) {
                found.insert(name.clone(), now);
            }
        }
        found.retain(|name, last| {
            let Some(queue) = queues.get(name) else { return false };
            if queue.take_used() {
                *last = now;
            }
            let is_kept = now.duration_since(*last) < FORGET_AFTER;
            if !is_kept {
                queues.remove(name);
            }
            is_kept
        });
        is_new
    }

    /// Calls this for each queue that may have a prefetched job. It must not use the queues otherwise.
    pub(crate) fn for_each_that_may_start(&self, start: impl FnMut(&Arc<Queue>)) {
        if self.any_prefetched() {
            self.read().values().for_each(start);
        }
    }

    /// How busy each queue is, in the order of their names.
    pub(crate) fn loads(&self) -> Vec<(String, [usize; 3])> {
        self.read().values().map(|queue| (queue.name().to_string(), queue.occupancy())).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    /// The names of all queues, without patterns.
    pub(crate) fn names(&self) -> Vec<String> {
        self.read().keys().map(|name| name.to_string()).collect()
    }

    /// Whether this queue is served now, or would be if it had jobs.
    pub(crate) fn serve(&self, queue: &str) -> bool {
        self.served.slots_of(queue).is_some()
    }

    /// What to claim now, for free slots and for prefetch, and how much of it. It is in the order of the queues' names,
    /// unless the queues take turns.
    pub(crate) fn wanted(&self) -> (Vec<Wanted>, Option<usize>) {
        let queues = self.read();
        let Some(total) = &self.total else {
            return (queues.values().filter_map(|queue| queue.wanted()).collect(), None);
        };
        let starting: usize = match self.any_prefetched() {
            true => queues.values().map(|queue| queue.about_to_start()).sum(),
            false => 0,
        };
        let free = total.free().saturating_sub(starting);
        let mut wanted: Vec<Wanted> = queues.values().filter_map(|queue| queue.wanted_within(free)).collect();
        total.in_turn(&mut wanted);
        // Without a free slot only batches that wait want jobs, and these need no slot.
        (wanted, (free > 0).then_some(free))
    }

    /// Whether this claim asks for jobs of all queues, so that no freed slot makes it worth while to claim again.
    pub(crate) fn are_all_in(&self, claim: &Claim) -> bool {
        claim.wanted.len() >= self.len() && self.total.as_ref().is_none_or(|_| claim.most.is_some())
    }

    /// Records which queues got jobs by this claim, so that the next one begins with others.
    pub(crate) fn note_claimed(&self, claim: &Claim, jobs: &[ClaimedJob]) {
        if let Some(total) = &self.total {
            total.claimed(claim, jobs);
        }
    }

    /// Whether a queue wants jobs now that is not among `before`, the queues of an earlier claim.
    pub(crate) fn wants_others_than(&self, before: &[Wanted]) -> bool {
        if self.total.is_some() {
            let before: HashSet<&str> = before.iter().map(|wanted| &*wanted.queue).collect();
            return self.wanted().0.iter().any(|wanted| !before.contains(&*wanted.queue));
        }
        // Both lists are in the order of the queues' names.
        let mut before = before.iter().peekable();
        self.read().values().any(|queue| {
            let was_wanted = before.next_if(|wanted| wanted.queue == *queue.name()).is_some();
            !was_wanted && queue.wanted().is_some()
        })
    }

    /// Puts claimed jobs into their queues. Returns the jobs whose queue is not served, and those that were paused
    /// after the claim had begun.
    pub(crate) fn push(&self, jobs: Vec<JobContext>) -> Vec<JobContext> {
        let now = Instant::now();
        let (mut refused, mut new) = (Vec::new(), Vec::new());
        let mut add = |queue: &Queue, ctx| {
            if self.served.has_patterns() {
                queue.note_used();
            }
            refused.extend(queue.add_prefetched(ctx, now).err());
        };
        {
            // A queue is not forgotten meanwhile, because that needs the lock.
            let queues = self.read();
            for ctx in jobs {
                match queues.get(ctx.queue()) {
                    Some(queue) => add(queue, ctx),
                    None => new.push(ctx),
                }
            }
        }
        if !new.is_empty() {
            // Their queues were forgotten after the claim had begun.
            let mut queues = self.write();
            new.retain(|ctx| match self.get_or_add(&mut queues, ctx.queue()) {
                Some(queue) => {
                    add(&queue, ctx.clone());
                    false
                }
                None => true,
            });
        }
        // Somebody else releases those that were withdrawn meanwhile.
        refused.into_iter().chain(new).filter(JobContext::begin).collect()
    }

    /// Whether any job is prefetched.
    pub(crate) fn any_prefetched(&self) -> bool {
        self.all_prefetched.load(Ordering::Acquire) > 0
    }

    /// Takes all prefetched jobs out of each queue that has held one of them for at least `limit`.
    pub(crate) fn overdue(&self, limit: Duration) -> Vec<JobContext> {
        let now = Instant::now();
        self.take(|queue| queue.take_overdue(limit, now))
    }

    /// Takes the prefetched jobs of paused queues and kinds out.
    pub(crate) fn take_paused(&self) -> Vec<JobContext> {
        self.take(|queue| queue.take_paused())
    }

    fn take(&self, of_queue: impl Fn(&Arc<Queue>) -> Vec<JobContext>) -> Vec<JobContext> {
        if !self.any_prefetched() {
            return Vec::new();
        }
        self.read().values().flat_map(of_queue).filter(JobContext::begin).collect()
    }

    /// Sets the slots of each queue: those of `overrides`, else those that the worker was started with. Returns the
    /// queues that have another number of slots now.
    pub(crate) fn set_slots(&self, overrides: &BTreeMap<String, usize>) -> Vec<(Arc<str>, usize)> {
        let mut changed = Vec::new();
        for (name, queue) in &*self.read() {
            let slots = overrides.get(&**name).copied().or_else(|| self.served.slots_of(name));
            if let Some(slots) = slots
                && queue.set_slots(slots)
            {
                changed.push((name.clone(), slots));
            }
        }
        changed
    }

    /// Pauses these queues and kinds, and no others.
    pub(crate) fn pause(&self, queues: &BTreeSet<String>, kinds: &BTreeSet<String>) {
        self.paused_kinds.set(kinds);
        self.read().iter().for_each(|(name, queue)| queue.set_paused(queues.contains(&**name)));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
