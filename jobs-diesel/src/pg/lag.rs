//! How far scan floors stay behind the database's clock. The next claim sees a transaction that commits within the lag.
//! A transaction that takes longer waits for a rescan. But every claim reads all entries that came into the queue
//! within the lag. If that takes long, the lag becomes shorter. Causes are dead entries that no vacuum can remove, and
//! many jobs that are not committed.

use std::time::{Duration, Instant};

/// The longest lag, outside of tests, and the shortest one.
pub(crate) const LONGEST_LAG: Duration = Duration::from_secs(2);
const SHORTEST_LAG: Duration = Duration::from_millis(100);
/// A claim that returns no jobs is slow if it takes longer than this.
const QUICK_CLAIM: Duration = Duration::from_millis(2);
/// A claim may take this much longer for each job that it returns.
const PER_JOB: Duration = Duration::from_micros(25);
/// This many slow claims in a row shorten the lag. Fewer may be a coincidence.
const IN_A_ROW: u32 = 3;
/// After this long without a change, the lag grows by a tenth.
const GROW_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Lag {
    lag: Duration,
    longest: Duration,
    slow: u32,
    changed: Instant,
}

impl Lag {
    pub(crate) fn new(longest: Duration, now: Instant) -> Self {
        Self { lag: longest, longest, slow: 0, changed: now }
    }

    pub(crate) fn get(&self) -> Duration {
        self.lag
    }

    /// Records that a claim took this long and returned this many jobs.
    pub(crate) fn claimed(&mut self, took: Duration, jobs: usize, now: Instant) {
        let limit = QUICK_CLAIM + PER_JOB * u32::try_from(jobs).unwrap_or(u32::MAX);
        self.slow = if took > limit { self.slow + 1 } else { 0 };
        if self.slow >= IN_A_ROW {
            (self.lag, self.slow, self.changed) = ((self.lag / 2).max(SHORTEST_LAG), 0, now);
        } else if now.duration_since(self.changed) >= GROW_AFTER {
            (self.lag, self.changed) = ((self.lag + self.lag / 10).min(self.longest), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(5);
    const FAST: Duration = Duration::from_millis(1);

    #[test]
    fn slow_claims_shorten_the_lag_and_quick_ones_restore_it() {
        let mut now = Instant::now();
        let mut lag = Lag::new(LONGEST_LAG, now);
        lag.claimed(SLOW, 0, now);
        lag.claimed(SLOW, 0, now);
        assert_eq!(lag.get(), LONGEST_LAG, "two slow claims may be a coincidence");
        (0..30).for_each(|_| lag.claimed(SLOW, 0, now));
        assert_eq!(lag.get(), SHORTEST_LAG);
        for _ in 0..40 {
            now += GROW_AFTER;
            lag.claimed(FAST, 0, now);
        }
        assert_eq!(lag.get(), LONGEST_LAG);
    }

    #[test]
    fn a_claim_that_brings_many_jobs_may_take_longer() {
        let now = Instant::now();
        let mut lag = Lag::new(LONGEST_LAG, now);
        (0..30).for_each(|_| lag.claimed(SLOW, 500, now));
        assert_eq!(lag.get(), LONGEST_LAG);
    }
}
