//! How long a failed job waits for its next attempt. The functions are pure: the attempt and the jitter are arguments.

use std::time::Duration;

/// How long a failed job waits for its next attempt. Default: [`Backoff::DEFAULT`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Backoff {
    /// A random time between zero and the smaller of `base * 2^(attempt - 1)` and `cap` (*full jitter*). It is random
    /// so that jobs that failed at the same time do not all retry at the same time.
    Exponential {
        /// The upper bound of the wait after the first attempt.
        base: Duration,
        /// The upper bound of the wait after any attempt.
        cap: Duration,
    },
    /// The same time after each attempt, and a random part of `jitter` in addition. Without jitter, jobs that failed at
    /// the same time retry at the same time.
    Fixed {
        /// The shortest wait.
        wait: Duration,
        /// The longest time that is added to it.
        jitter: Duration,
    },
    /// The time that this function returns for the number of the failed attempt, starting from 1.
    Custom(fn(attempt: u16) -> Duration),
}

impl Backoff {
    /// Exponential with full jitter: up to 2 s after the first attempt, with a bound that doubles with each attempt, up
    /// to one hour.
    pub const DEFAULT: Self = Self::Exponential { base: Duration::from_secs(2), cap: Duration::from_secs(3600) };

    /// The wait after the failure of attempt number `attempt`, counted from 1. `jitter` is at least 0 and less than 1;
    /// `Custom` does not use it.
    ///
    /// ```
    /// # use diesel_jobs_core::Backoff;
    /// # use std::time::Duration;
    /// let backoff = Backoff::DEFAULT;
    /// assert_eq!(backoff.wait(1, 0.5), Duration::from_secs(1));
    /// assert_eq!(backoff.wait(3, 0.5), Duration::from_secs(4));
    /// assert_eq!(backoff.wait(60_000, 0.5), Duration::from_secs(1800));
    ///
    /// let (wait, jitter) = (Duration::from_secs(30), Duration::from_secs(10));
    /// assert_eq!(Backoff::Fixed { wait, jitter }.wait(3, 0.5), Duration::from_secs(35));
    /// ```
    pub fn wait(&self, attempt: u16, jitter: f64) -> Duration {
        match *self {
            Self::Exponential { base, cap } => {
                let doublings = u32::from(attempt.max(1) - 1);
                let ceiling =
                    2u32.checked_pow(doublings).and_then(|factor| base.checked_mul(factor)).map_or(cap, |d| d.min(cap));
                ceiling.mul_f64(jitter.clamp(0.0, 1.0))
            }
            Self::Fixed { wait, jitter: most } => wait.saturating_add(most.mul_f64(jitter.clamp(0.0, 1.0))),
            Self::Custom(wait) => wait(attempt),
        }
    }
}

/// The largest number of attempts of an undecodable job. It is more than one: during a rollout or a rollback, a worker
/// of the other version may be able to decode the arguments. It is less than for other jobs: if no version can decode
/// them, the job should be discarded soon, so that an operator notices it.
pub(crate) const UNDECODABLE_ATTEMPTS: u16 = 5;

/// The wait after attempt number `attempt` of an undecodable job, from 1. All waits together are longer than a
/// deployment and its rollback.
pub(crate) fn undecodable_wait(attempt: u16, jitter: f64) -> Duration {
    let seconds = match attempt {
        0 | 1 => 15,
        2 => 60,
        3 => 600,
        _ => 3600,
    };
    // Jobs that failed at the same time do not retry at the same time.
    Duration::from_secs(seconds).mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 4.0)
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_stays_between_nothing_and_its_ceiling() {
        let backoff = Backoff::Exponential { base: Duration::from_secs(1), cap: Duration::from_secs(60) };
        for attempt in 0..=u16::MAX {
            assert_eq!(backoff.wait(attempt, 0.0), Duration::ZERO);
            assert!(backoff.wait(attempt, 0.999_999) <= Duration::from_secs(60));
        }
        assert_eq!(backoff.wait(4, 1.0), Duration::from_secs(8));
    }

    #[test]
    fn fixed_stays_between_its_wait_and_its_jitter() {
        let backoff = Backoff::Fixed { wait: Duration::from_secs(30), jitter: Duration::from_secs(10) };
        assert_eq!([0.0, 0.5, 1.0].map(|jitter| backoff.wait(7, jitter).as_secs()), [30, 35, 40]);
        let backoff = Backoff::Fixed { wait: Duration::from_secs(30), jitter: Duration::ZERO };
        assert_eq!([0.0, 0.999].map(|jitter| backoff.wait(1, jitter).as_secs()), [30, 30]);
        let most = Duration::from_secs(36_525 * 24 * 3600);
        assert_eq!(Backoff::Fixed { wait: most, jitter: most }.wait(1, 1.0), most * 2);
    }

    #[test]
    fn custom_gets_the_failed_attempt() {
        let backoff = Backoff::Custom(|attempt| Duration::from_secs(u64::from(attempt) * 10));
        assert_eq!(backoff.wait(3, 0.1), Duration::from_secs(30));
    }
}
