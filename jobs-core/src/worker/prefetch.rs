//! How many jobs a queue claims beyond its free slots. Without prefetch, short jobs would wait for the round trip of a
//! claim each time a slot is free. Long jobs must not be prefetched, because they would wait in one process while other
//! workers have nothing to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A queue prefetches work for about this long.
const PREFETCHED_TIME: Duration = Duration::from_millis(50);
/// The most jobs of one queue that are prefetched.
const MOST_JOBS: u64 = 2000;
/// The most bytes of arguments that one queue prefetches.
const MOST_BYTES: u64 = 8 * 1024 * 1024;
/// Each sample has a weight of one eighth in the mean. So a single long job among short ones ends the prefetch, and a
/// few dozen short ones start it again.
const WEIGHT: u64 = 8;

/// Running means of how long the jobs of a queue run and how large their arguments are.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// In nanoseconds; zero while nothing is known.
    run: AtomicU64,
    bytes: AtomicU64,
}

/// Adds a sample to a mean. Two writers at the same moment may lose one sample, which is acceptable for an estimate.
fn learn(mean: &AtomicU64, sample: u64) {
    let (sample, old) = (sample.max(1), mean.load(Ordering::Relaxed));
    let new = if old == 0 { sample } else { (old * (WEIGHT - 1) + sample) / WEIGHT };
    mean.store(new.max(1), Ordering::Relaxed);
}

impl Prefetch {
    /// Records how long a handler ran.
    pub(crate) fn ran(&self, time: Duration) {
        learn(&self.run, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / WEIGHT).min(u64::MAX / WEIGHT));
    }

    /// Records that prefetched jobs waited too long. Nothing is prefetched until short jobs have run again.
    pub(crate) fn stalled(&self) {
        self.run.store(u64::try_from(PREFETCHED_TIME.as_nanos()).unwrap_or(u64::MAX) * 2, Ordering::Relaxed);
    }

    /// Records the size of the arguments of a claimed job, in bytes.
    pub(crate) fn claimed(&self, bytes: usize) {
        learn(&self.bytes, bytes as u64);
    }

    /// How many jobs to prefetch for a queue with this many slots, beyond those that run.
    pub(crate) fn most(&self, slots: usize) -> usize {
        let run = self.run.load(Ordering::Relaxed);
        let limit = u64::try_from(PREFETCHED_TIME.as_nanos()).unwrap_or(u64::MAX);
        if run == 0 || run > limit {
            return 0;
        }
        let by_time = (slots as u64).saturating_mul(limit) / run;
        self.bounded(by_time)
    }

    /// How many jobs to prefetch so that each free slot can take a batch of this size.
    pub(crate) fn most_for_batches(&self, free: usize, batch: usize) -> usize {
        self.bounded((free as u64).saturating_mul(batch.saturating_sub(1) as u64))
    }

    fn bounded(&self, jobs: u64) -> usize {
        let by_size = MOST_BYTES / self.bytes.load(Ordering::Relaxed).max(1);
        usize::try_from(jobs.min(by_size).min(MOST_JOBS)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetch(runs: &[Duration]) -> Prefetch {
        let prefetch = Prefetch::default();
        runs.iter().for_each(|run| prefetch.ran(*run));
        prefetch
    }

    #[test]
    fn nothing_is_claimed_ahead_before_anything_is_known() {
        assert_eq!(Prefetch::default().most(16), 0);
    }

    #[test]
    fn short_jobs_are_claimed_ahead_for_a_twentieth_of_a_second() {
        assert_eq!(prefetch(&[Duration::from_millis(10)]).most(16), 80);
        assert_eq!(prefetch(&[Duration::from_nanos(100)]).most(16), 2000, "but not without bound");
    }

    #[test]
    fn long_jobs_are_not_prefetched() {
        assert_eq!(prefetch(&[Duration::from_millis(51)]).most(16), 0);
        assert_eq!(prefetch(&[Duration::MAX]).most(16), 0);
    }

    #[test]
    fn one_long_job_among_short_ones_ends_it_and_short_ones_bring_it_back() {
        let prefetch = prefetch(&[Duration::from_micros(10); 1000]);
        prefetch.ran(Duration::from_secs(1));
        assert_eq!(prefetch.most(16), 0);
        (0..100).for_each(|_| prefetch.ran(Duration::from_micros(10)));
        assert_eq!(prefetch.most(16), 2000);
    }

    #[test]
    fn after_a_stall_nothing_is_claimed_ahead_until_short_jobs_have_run() {
        let prefetch = prefetch(&[Duration::from_micros(10)]);
        prefetch.stalled();
        assert_eq!(prefetch.most(16), 0);
        (0..10).for_each(|_| prefetch.ran(Duration::from_micros(10)));
        assert!(prefetch.most(16) > 0);
    }

    #[test]
    fn each_free_slot_gets_a_batch_however_long_it_runs() {
        let prefetch = prefetch(&[Duration::from_secs(1)]);
        assert_eq!(prefetch.most_for_batches(3, 100), 297);
        assert_eq!(prefetch.most_for_batches(16, 1), 0, "no batches");
        prefetch.claimed(64 * 1024);
        assert_eq!(prefetch.most_for_batches(16, 100), 128);
    }

    #[test]
    fn large_arguments_are_bounded_by_their_size() {
        let prefetch = prefetch(&[Duration::from_micros(1)]);
        prefetch.claimed(64 * 1024);
        assert_eq!(prefetch.most(16), 128);
    }
}
