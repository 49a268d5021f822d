//! One rule, without its name and key.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{OnDiscard, OnFull, RuleProblem};
use crate::flags;

/// The largest number of jobs that a limit may allow at once.
pub const MOST_AT_ONCE: u32 = 10_000;
/// The largest number of starts of a rate in its period.
pub(super) const MOST_OF_RATE: u32 = 1_000_000;
/// The largest burst.
pub(super) const MOST_BURST: u32 = 10_000;
/// The shortest time between two tokens, in microseconds.
const SHORTEST: u128 = 100;
/// The shortest period of a rate, in microseconds.
const SHORTEST_PERIOD: u128 = 1000;
/// The longest period of a rate.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest time in which all tokens of a key come.
const HUNDRED_YEARS: Duration = Duration::from_secs(36_525 * 24 * 3600);
/// Without `burst`, a key can keep the tokens of this time (in microseconds), and at least one.
const USUAL_BURST: u128 = 100_000;

/// When a job may start, considering the other jobs whose rules have the same name and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Rule {
    /// A limit: at most `most` of these jobs run at once.
    Concurrency {
        /// How many may run at once, from 1 to 10,000.
        most: u32,
        /// What happens to a job that finds the limit full.
        #[serde(default, skip_serializing_if = "OnFull::is_wait")]
        on_full: OnFull,
    },
    /// A sequence: these jobs run one at a time, in the order of their ids.
    Sequence {
        /// What happens when one of them is discarded.
        on_discard: OnDiscard,
    },
    /// A rate: at most `limit` of them start in a period.
    Rate {
        /// How many may start in the period, from 1 to 1,000,000.
        limit: u32,
        /// The period, from a millisecond to 366 days. In JSON, it is in microseconds.
        #[serde(with = "micros")]
        per: Duration,
        /// How many may start at once after a quiet time, from 1 to 10,000.
        burst: u32,
        /// What happens to a job that finds no token.
        #[serde(default, skip_serializing_if = "OnFull::is_wait")]
        on_full: OnFull,
    },
}

impl Rule {
    /// A limit of `most` jobs at once. A job that finds it full waits.
    pub const fn concurrency(most: u32) -> Self {
        Self::Concurrency { most, on_full: OnFull::Wait }
    }

    /// A rate of `limit` starts in the period `per`. The burst is the number of starts that it allows in a tenth of a
    /// second, but at least 1. A job that finds no token waits.
    #[expect(clippy::cast_possible_truncation, reason = "it is at most `MOST_BURST`")]
    pub const fn rate(limit: u32, per: Duration) -> Self {
        let micros = per.as_micros();
        let usual = limit as u128 * USUAL_BURST / if micros == 0 { 1 } else { micros };
        let burst = if usual < 1 {
            1
        } else if usual > MOST_BURST as u128 {
            MOST_BURST
        } else {
            usual as u32
        };
        Self::Rate { limit, per, burst, on_full: OnFull::Wait }
    }

    /// What happens to a job that may not start when it becomes due. In a sequence, it always waits.
    pub const fn on_full(self) -> OnFull {
        match self {
            Self::Concurrency { on_full, .. } | Self::Rate { on_full, .. } => on_full,
            Self::Sequence { .. } => OnFull::Wait,
        }
    }

    /// If this is a sequence, what happens when one of its jobs is discarded.
    pub const fn on_discard(self) -> Option<OnDiscard> {
        match self {
            Self::Sequence { on_discard } => Some(on_discard),
            Self::Concurrency { .. } | Self::Rate { .. } => None,
        }
    }

    /// If this is a limit, how many jobs may run at once. An operator can set another number at run time.
    pub const fn most(self) -> Option<u32> {
        match self {
            Self::Concurrency { most, .. } => Some(most),
            Self::Sequence { .. } | Self::Rate { .. } => None,
        }
    }

    /// How many jobs of a key may run at once, or start in the period of a rate.
    pub(super) const fn most_of_key(self) -> u32 {
        match self {
            Self::Concurrency { most, .. } | Self::Rate { limit: most, .. } => most,
            Self::Sequence { .. } => 1,
        }
    }

    /// Whether this is a rate. Its jobs spend tokens and hold no permits.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Rate { .. })
    }

    /// Whether both are limits, sequences or rates.
    pub(super) fn is_same_sort(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The same rule for jobs that do not wait. A sequence stays as it is, because its jobs always wait.
    pub(super) const fn with_on_full(self, on_full: OnFull) -> Self {
        match self {
            Self::Concurrency { most, .. } => Self::Concurrency { most, on_full },
            Self::Rate { limit, per, burst, .. } => Self::Rate { limit, per, burst, on_full },
            Self::Sequence { .. } => self,
        }
    }

    /// The same rate with this burst. Others have none, and stay as they are.
    pub(super) const fn with_burst(self, burst: u32) -> Self {
        match self {
            Self::Rate { limit, per, on_full, .. } => Self::Rate { limit, per, burst, on_full },
            Self::Concurrency { .. } | Self::Sequence { .. } => self,
        }
    }

    /// The [flags](crate::flags) of a job that has only this rule.
    pub(super) const fn flags(self) -> i32 {
        let on_full = if self.on_full().is_wait() { 0 } else { flags::ON_FULL };
        match self {
            Self::Concurrency { .. } => flags::LIMITED | on_full,
            Self::Sequence { .. } => flags::LIMITED | flags::SEQUENCE,
            Self::Rate { .. } => flags::LIMITED | flags::RATE | on_full,
        }
    }

    /// The rule as it may be stored: the period of a rate is in whole microseconds.
    pub(super) fn checked(self) -> Result<Self, RuleProblem> {
        match self {
            Self::Concurrency { most: most @ (0 | 10_001..), .. } => Err(RuleProblem::Number(most)),
            Self::Concurrency { .. } | Self::Sequence { .. } => Ok(self),
            Self::Rate { on_full: OnFull::CancelOldest, .. } => Err(RuleProblem::CancelForToken),
            Self::Rate { limit, per, burst, on_full } => {
                check_rate(limit, per, burst)?;
                let per = Duration::from_micros(u64::try_from(per.as_micros()).unwrap_or(u64::MAX));
                Ok(Self::Rate { limit, per, burst, on_full })
            }
        }
    }
}

const _: () = assert!(MOST_AT_ONCE == 10_000, "`checked` has a range from the next number on");

fn check_rate(limit: u32, per: Duration, burst: u32) -> Result<(), RuleProblem> {
    let micros = per.as_micros();
    if limit == 0 || limit > MOST_OF_RATE {
        return Err(RuleProblem::Starts(limit));
    }
    if burst == 0 || burst > MOST_BURST {
        return Err(RuleProblem::Burst(burst));
    }
    if micros < SHORTEST_PERIOD || per > LONGEST {
        return Err(RuleProblem::Per);
    }
    if micros * u128::from(burst) / u128::from(limit) > HUNDRED_YEARS.as_micros() {
        return Err(RuleProblem::SlowBurst);
    }
    if micros < SHORTEST * u128::from(limit) {
        return Err(RuleProblem::TooFast);
    }
    Ok(())
}

/// A period in the notation of the options, such as `1m`.
pub fn period_text(per: Duration) -> String {
    let millis = per.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let whole = units.into_iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
}

/// A duration as a number of microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_burst_is_that_of_a_tenth_of_a_second() {
        let burst = |limit, per| match Rule::rate(limit, per) {
            Rule::Rate { burst, .. } => burst,
            other => panic!("{other:?}"),
        };
        assert_eq!((burst(1000, SECOND), burst(100, Duration::from_secs(60)), burst(1, Duration::MAX)), (100, 1, 1));
        assert_eq!((burst(u32::MAX, Duration::ZERO), burst(10, Duration::ZERO)), (MOST_BURST, MOST_BURST));
    }

    #[test]
    fn bad_rates_are_refused() {
        let of = |limit, per, burst| Rule::rate(limit, per).with_burst(burst).checked().map(drop);
        assert_eq!(of(0, SECOND, 1), Err(RuleProblem::Starts(0)));
        assert_eq!(of(MOST_OF_RATE + 1, LONGEST, 1), Err(RuleProblem::Starts(MOST_OF_RATE + 1)));
        assert_eq!(of(1, SECOND, 0), Err(RuleProblem::Burst(0)));
        assert_eq!(of(1, SECOND, MOST_BURST + 1), Err(RuleProblem::Burst(MOST_BURST + 1)));
        for per in [Duration::ZERO, Duration::from_micros(999), LONGEST + SECOND, Duration::MAX] {
            assert_eq!(of(1, per, 1), Err(RuleProblem::Per), "{per:?}");
        }
        assert_eq!(of(1, LONGEST, MOST_BURST), Err(RuleProblem::SlowBurst));
        assert_eq!(of(10_001, SECOND, 1), Err(RuleProblem::TooFast));
        assert_eq!(of(10_000, SECOND, 1), Ok(()));
        let cancels = Rule::rate(10, SECOND).with_on_full(OnFull::CancelOldest).checked().unwrap_err();
        assert!(cancels.to_string().contains("frees no token"), "{cancels}");
    }

    #[test]
    fn bad_limits_are_refused() {
        for most in [0, MOST_AT_ONCE + 1, u32::MAX] {
            assert_eq!(Rule::concurrency(most).checked(), Err(RuleProblem::Number(most)));
        }
        assert!(Rule::concurrency(MOST_AT_ONCE).checked().is_ok());
    }
}
