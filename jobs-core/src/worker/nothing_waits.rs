//! What the fetcher knows of the jobs that wait for this worker. Finishes read it ([`passing_on`](super::passing_on)).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::storage::Claim;

/// For this long after a claim that found less than it wanted, no other job is believed to wait. A job that comes
/// meanwhile is claimed as soon as the fetcher hears of it and a slot is free.
const TRUSTED: Duration = Duration::from_millis(20);

/// Whether other jobs wait for this worker, as far as the fetcher knows.
#[derive(Default)]
pub(super) struct NothingWaits {
    /// The fetcher sleeps after a claim without jobs.
    asleep: AtomicBool,
    /// When a claim found less than it wanted.
    exhausted: Mutex<Option<Instant>>,
}

impl NothingWaits {
    /// A claim for all queues has returned this many jobs.
    pub(super) fn claimed(&self, claim: &Claim, jobs: usize) {
        // A claim for free slots may leave the prefetch to the next one.
        let least =
            claim.wanted.iter().map(|wanted| if wanted.slots > 0 { wanted.slots } else { wanted.total() }).min();
        if least.is_some_and(|least| jobs < least) {
            *self.exhausted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    pub(super) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Release);
    }

    pub(super) fn is_true(&self) -> bool {
        let exhausted = || *self.exhausted.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.load(Ordering::Acquire) || exhausted().is_some_and(|at| at.elapsed() < TRUSTED)
    }
}
