//! The calls that enqueue jobs, generated from a seed. The same seed gives the same calls.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::work::{Shape, Work};

/// One call of the application that enqueues jobs.
#[derive(Clone, Debug)]
pub enum EnqueueCall {
    /// One job, outside of a transaction.
    Single(Work),
    /// Some jobs, one by one, in a transaction that is committed or rolled back.
    Transaction {
        /// The jobs.
        works: Vec<Work>,
        /// Whether it is committed.
        commit: bool,
        /// How long it stays open after the inserts.
        late: Duration,
    },
    /// Many jobs in one call.
    Bulk(Vec<Work>),
}

impl EnqueueCall {
    /// Its jobs.
    pub fn works(&self) -> &[Work] {
        match self {
            Self::Single(work) => std::slice::from_ref(work),
            Self::Transaction { works, .. } | Self::Bulk(works) => works,
        }
    }
}

/// The shares of the sorts of jobs, in percent, and their durations.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Jobs that are transactional.
    pub transactional: u32,
    /// Jobs, of either sort, that run on a thread for handlers.
    pub blocking: u32,
    /// Jobs that fail, panic, snooze, cancel themselves, or use up their attempts.
    pub troubled: u32,
    /// Jobs that take long.
    pub long: u32,
    /// The longest duration of those, in ms.
    pub long_millis: u64,
    /// The longest duration of the others, in ms.
    pub millis: u64,
    /// The largest bulk.
    pub bulk: usize,
    /// Whether all jobs have limits. Half of them share [`BUSY_KEYS`] keys of the limit `busy`, two at once. The others
    /// are pairs: two jobs with a key of their own, one at once.
    pub limits: bool,
    /// Whether all jobs have a rate, with [`RATE_KEYS`] keys.
    pub rates: bool,
}

/// The number of keys of the limit `busy`.
pub const BUSY_KEYS: i64 = 20;
/// The number of keys of jobs with a rate.
pub const RATE_KEYS: i64 = 8;
/// The keys of the limit `shared`, which a tenth of the jobs with limits have, too.
const SHARED_KEYS: i64 = 4;
/// How many jobs of each of these keys run at once.
const SHARED_MOST: u32 = 3;

impl Default for Mix {
    fn default() -> Self {
        Self {
            transactional: 40,
            blocking: 20,
            troubled: 20,
            long: 2,
            long_millis: 600,
            millis: 15,
            bulk: 200,
            limits: false,
            rates: false,
        }
    }
}

/// Calls, until they contain the requested number of jobs.
#[derive(Debug)]
pub struct Workload {
    rng: StdRng,
    mix: Mix,
    next: i64,
    left: usize,
}

impl Workload {
    /// Generates calls with this number of committed jobs. Rolled-back jobs are additional. The numbers begin at one.
    pub fn new(seed: u64, mix: Mix, jobs: usize) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), mix, next: 1, left: jobs }
    }

    /// Begins the numbers of its jobs at `next`.
    pub fn from(self, next: i64) -> Self {
        Self { next, ..self }
    }

    fn works(&mut self, most: usize) -> Vec<Work> {
        let count = self.rng.random_range(1..=most.max(1));
        (0..count).map(|_| self.work()).collect()
    }

    fn percent(&mut self, share: u32) -> bool {
        self.rng.random_range(0..100) < share
    }

    fn work(&mut self) -> Work {
        let shape = match (self.percent(self.mix.transactional), self.percent(self.mix.blocking)) {
            (false, false) => Shape::Async,
            (false, true) => Shape::Blocking,
            (true, false) => Shape::Transactional,
            (true, true) => Shape::TransactionalBlocking,
        };
        let mut work = Work::new(self.next, shape);
        self.next += 1;
        work.polite = self.rng.random_bool(0.5);
        work.millis = if self.percent(self.mix.long) {
            self.rng.random_range(0..=self.mix.long_millis)
        } else {
            self.rng.random_range(0..=self.mix.millis)
        };
        work.later_millis = work.millis;
        if self.percent(self.mix.troubled) {
            disturb(&mut self.rng, &mut work);
        }
        if self.mix.rates {
            return work.rated(self.rng.random_range(0..RATE_KEYS));
        }
        if !self.mix.limits {
            return work;
        }
        let limited = match work.number / 2 {
            pair if pair % 2 == 0 => work.limited("pair", pair, 1),
            _ => work.limited("busy", self.rng.random_range(0..BUSY_KEYS), 2),
        };
        match limited.number % 10 {
            0 => limited.and_limited("shared", self.rng.random_range(0..SHARED_KEYS), SHARED_MOST),
            _ => limited,
        }
    }
}

impl Iterator for Workload {
    type Item = EnqueueCall;

    fn next(&mut self) -> Option<EnqueueCall> {
        if self.left == 0 {
            return None;
        }
        let most = self.left;
        let call = match self.rng.random_range(0..10) {
            0..4 => EnqueueCall::Single(self.work()),
            4..6 => EnqueueCall::Transaction { works: self.works(most.min(5)), commit: true, late: Duration::ZERO },
            6..8 => {
                return Some(EnqueueCall::Transaction { works: self.works(5), commit: false, late: Duration::ZERO });
            }
            _ => EnqueueCall::Bulk(self.works(most.min(self.mix.bulk))),
        };
        self.left -= call.works().len();
        Some(call)
    }
}

/// Makes the job fail, snooze, cancel itself or use up its attempts.
pub fn disturb(rng: &mut StdRng, work: &mut Work) {
    work.panics = rng.random_bool(0.5);
    match rng.random_range(0..10) {
        0..5 => work.failures = rng.random_range(1..=2),
        5..8 => work.snoozes = true,
        8 => work.cancels = true,
        _ => (work.failures, work.max_attempts) = (u16::MAX, 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_deeds_again_and_the_jobs_that_were_asked_for() {
        let calls = |seed| format!("{:?}", Workload::new(seed, Mix::default(), 500).collect::<Vec<_>>());
        assert_eq!(calls(7), calls(7));
        assert_ne!(calls(7), calls(8));
        let jobs = Workload::new(7, Mix::default(), 500).map(|call| match call {
            EnqueueCall::Single(_) => 1,
            EnqueueCall::Transaction { works, commit: true, .. } | EnqueueCall::Bulk(works) => works.len(),
            EnqueueCall::Transaction { .. } => 0,
        });
        assert_eq!(jobs.sum::<usize>(), 500);
    }
}
