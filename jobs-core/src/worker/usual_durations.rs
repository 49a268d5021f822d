//! How long attempts of each kind usually take, so that a far longer attempt can be logged. A handler that hangs in a
//! live process keeps its lease, and nothing else would report it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::registry::Registry;

/// One attempt moves the mean by one part in this many.
const WEIGHT: u64 = 16;
/// An attempt may be long if it takes this many times the usual time.
const TIMES: u32 = 20;
/// But it is long only if it takes at least this time.
const LEAST: Duration = Duration::from_secs(60);
/// If no attempt of the kind has ended here yet, an attempt is long from this time on.
const UNKNOWN: Duration = Duration::from_secs(3600);

/// A moving mean for each kind, in microseconds; zero while nothing is known.
pub(crate) struct UsualDurations(HashMap<&'static str, AtomicU64>);

impl UsualDurations {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self(registry.iter().map(|registration| (registration.kind, AtomicU64::new(0))).collect())
    }

    /// Records that an attempt of this kind succeeded after this time.
    pub(crate) fn ended(&self, kind: &str, ran: Duration) {
        let Some(mean) = self.0.get(kind) else { return };
        let ran = u64::try_from(ran.as_micros()).unwrap_or(u64::MAX / WEIGHT).clamp(1, u64::MAX / WEIGHT);
        let old = mean.load(Ordering::Relaxed);
        let new = if old == 0 { ran } else { (old * (WEIGHT - 1) / WEIGHT).saturating_add(ran / WEIGHT).max(1) };
        // If two attempts end at the same moment, one may be lost.
        mean.store(new, Ordering::Relaxed);
    }

    /// How long attempts of this kind usually take. `None` while nothing is known.
    fn usual(&self, kind: &str) -> Option<Duration> {
        let mean = self.0.get(kind)?.load(Ordering::Relaxed);
        (mean > 0).then(|| Duration::from_micros(mean))
    }

    /// Whether an attempt of this kind has run for far longer than usual. If so, returns `Some` with the usual time, if
    /// that is known.
    pub(crate) fn is_exceeded(&self, kind: &str, running: Duration) -> Option<Option<Duration>> {
        let usual = self.usual(kind);
        let limit = usual.map_or(UNKNOWN, |usual| usual.saturating_mul(TIMES).max(LEAST));
        (running > limit).then_some(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(ran: &[Duration]) -> UsualDurations {
        let usual = UsualDurations([("k", AtomicU64::new(0))].into());
        ran.iter().for_each(|ran| usual.ended("k", *ran));
        usual
    }

    #[test]
    fn an_attempt_is_long_from_twenty_times_the_usual_and_a_minute_on() {
        let slow = after(&[SECOND * 10; 50]);
        assert!(slow.is_exceeded("k", SECOND * 190).is_none());
        assert!(slow.is_exceeded("k", SECOND * 210).is_some());
        let quick = after(&[Duration::from_nanos(300); 50]);
        assert!(quick.is_exceeded("k", SECOND * 59).is_none());
        assert!(quick.is_exceeded("k", SECOND * 61).is_some());
    }

    #[test]
    fn where_nothing_is_known_an_hour_is_long() {
        assert!(after(&[]).is_exceeded("k", SECOND * 3590).is_none());
        assert_eq!(after(&[]).is_exceeded("k", SECOND * 3610), Some(None));
        assert!(after(&[]).is_exceeded("never heard of", SECOND * 3610).is_some());
    }

    #[test]
    fn the_mean_follows_and_endless_attempts_do_not_break_it() {
        let usual = after(&[[SECOND; 50], [SECOND * 100; 50]].concat());
        assert!(usual.usual("k").is_some_and(|mean| mean > SECOND * 80 && mean <= SECOND * 100));
        assert!(after(&[Duration::MAX; 50]).usual("k").is_some());
    }
}
