//! What is counted and measured for each queue and kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::Histogram;
use super::names::SECONDS;
use crate::error::FailureKind;
use crate::recorder::AttemptOutcome;

pub(super) type Seconds = Histogram<{ SECONDS.len() }>;

/// No failure, and each kind of failure.
const ERRORS: usize = FailureKind::ALL.len() + 1;
const ATTEMPTS: usize = AttemptOutcome::ALL.len() * ERRORS;

fn place(error: Option<FailureKind>) -> usize {
    error.map_or(0, |error| error as usize + 1)
}

/// The value of the label `error_type`. It is empty without a failure, which Prometheus treats as no label.
fn error_type(place: usize) -> &'static str {
    place.checked_sub(1).and_then(|place| FailureKind::ALL.get(place)).map_or("", |error| error.as_str())
}

pub(super) struct Series {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) leases_lost: AtomicU64,
    pub(super) waits: Seconds,
    runs: [Seconds; ERRORS],
    attempts: [AtomicU64; ATTEMPTS],
}

impl Series {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            sent: zero(),
            received: zero(),
            leases_lost: zero(),
            waits: Histogram::new(&SECONDS),
            runs: std::array::from_fn(|_| Histogram::new(&SECONDS)),
            attempts: std::array::from_fn(|_| zero()),
        }
    }

    pub(super) fn attempt_ended(
        &self,
        outcome: AttemptOutcome,
        error: Option<FailureKind>,
        wait: Option<Duration>,
        run: Option<Duration>,
    ) {
        self.attempts[outcome as usize * ERRORS + place(error)].fetch_add(1, Ordering::Relaxed);
        if let Some(wait) = wait {
            self.waits.add(wait.as_secs_f64());
        }
        if let Some(run) = run {
            self.runs[place(error)].add(run.as_secs_f64());
        }
    }

    /// How many attempts ended with each outcome and failure, without the pairs that did not occur.
    pub(super) fn attempts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        AttemptOutcome::ALL.into_iter().flat_map(move |outcome| {
            (0..ERRORS).filter_map(move |error| {
                let count = self.attempts[outcome as usize * ERRORS + error].load(Ordering::Relaxed);
                (count > 0).then(|| (outcome.as_str(), error_type(error), count))
            })
        })
    }

    /// How long handlers ran, for each failure.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&'static str, &Seconds)> {
        self.runs.iter().enumerate().map(|(error, runs)| (error_type(error), runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_and_failure_has_a_place_of_its_own() {
        let series = Series::new();
        let failures = FailureKind::ALL.into_iter().map(Some).chain([None]);
        for error in failures {
            for outcome in AttemptOutcome::ALL {
                series.attempt_ended(outcome, error, None, None);
                assert_eq!(error_type(place(error)), error.map_or("", FailureKind::as_str));
            }
        }
        assert!(series.attempts().all(|(_, _, count)| count == 1));
        assert_eq!(series.attempts().count(), ATTEMPTS);
        for (place, outcome) in AttemptOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place, "{outcome:?}");
        }
    }
}
