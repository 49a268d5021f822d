//! One step of the test: its load and its results.

use std::time::Duration;

use serde::Serialize;

/// The load of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Worker processes.
    pub(super) processes: usize,
    /// Connections that enqueue, each as fast as it can.
    pub(super) connections: usize,
    /// Jobs in each enqueueing transaction.
    pub(super) batch: usize,
    /// Whether the step measures the rate of the workers. The connections then enqueue only as many jobs as the workers
    /// need to stay busy.
    pub(super) keeps_work: bool,
}

/// How long jobs wait from their commit until their handler begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Pickup {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) probes: usize,
}

/// With fewer probes no percentile is reported. On SQLite, a writing connection can keep the connection of the probes
/// waiting, so that few probes are enqueued.
const PROBES: usize = 10;

impl Pickup {
    pub(super) fn of(mut waits: Vec<Duration>) -> Option<Self> {
        waits.sort_unstable();
        let at = |percent: usize| waits.get(waits.len() * percent / 100).copied().map(millis);
        let known = waits.len() >= PROBES;
        known.then_some(Self { p50_ms: at(50)?, p99_ms: at(99)?, probes: waits.len() })
    }
}

/// The results of one step.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) processes: usize,
    pub(super) connections: usize,
    pub(super) batch: usize,
    pub(super) seconds: f64,
    pub(super) jobs_per_second: f64,
    pub(super) pickup: Option<Pickup>,
    /// How many processors the database kept busy. `None` if its processes cannot be read.
    pub(super) database_processors: Option<f64>,
    /// The share of this machine's processors that was busy, from 0 to 1.
    pub(super) machine_busy: Option<f64>,
    /// The open connections of the whole load test.
    pub(super) database_connections: Option<usize>,
}

/// Steps that differ in one number, which grows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) steps: Vec<Step>,
    /// The index of the first step whose rate is close to the best rate ([`NEARLY`]).
    pub(super) knee: usize,
    /// Whether the rate stopped growing: a step after the knee was measured.
    pub(super) flat: bool,
}

/// A rate of at least this share of the best rate counts as the best.
const NEARLY: f64 = 0.95;

/// A step must reach this multiple of the best rate before it to count as growth.
const GROWTH: f64 = 1.05;

impl Series {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        let best = steps.iter().map(|step| step.jobs_per_second).fold(0.0, f64::max);
        let knee = steps.iter().position(|step| step.jobs_per_second >= best * NEARLY).unwrap_or_default();
        let flat = knee + 1 < steps.len();
        Self { steps, knee, flat }
    }

    pub(super) fn at_knee(&self) -> Option<&Step> {
        self.steps.get(self.knee)
    }
}

/// Whether the rate did not grow in the last two steps. A single step may be slow by coincidence.
pub(super) fn stopped_growing(steps: &[Step]) -> bool {
    let Some((before, last)) = steps.len().checked_sub(2).filter(|before| *before > 0).map(|at| steps.split_at(at))
    else {
        return false;
    };
    let best = before.iter().map(|step| step.jobs_per_second).fold(0.0, f64::max);
    last.iter().all(|step| step.jobs_per_second < best * GROWTH)
}

/// Returns 1, 2, 4 and so on below `most`, and `most` itself.
pub(super) fn doublings(most: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
    numbers.push(most.max(1));
    numbers
}

/// Returns the duration in milliseconds.
pub(super) fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cli::bench) fn steps(rates: &[f64]) -> Vec<Step> {
        let step = |(at, rate): (usize, &f64)| Step {
            processes: 1 << at,
            connections: 1 << at,
            batch: 1,
            seconds: 1.0,
            jobs_per_second: *rate,
            pickup: None,
            database_processors: None,
            machine_busy: None,
            database_connections: None,
        };
        rates.iter().enumerate().map(step).collect()
    }

    #[test]
    fn the_knee_is_the_smallest_load_that_reaches_nearly_the_best_rate() {
        let knee = |rates: &[f64]| {
            let series = Series::new(steps(rates));
            (series.knee, series.flat)
        };
        assert_eq!(knee(&[100.0, 190.0, 300.0, 310.0, 280.0]), (2, true));
        assert_eq!(knee(&[100.0, 200.0, 400.0]), (2, false));
        assert_eq!(knee(&[100.0]), (0, false));
        assert_eq!(knee(&[100.0, 60.0]), (0, true));
        assert_eq!(knee(&[]), (0, false));
    }

    #[test]
    fn growth_has_stopped_after_two_steps_without_growth() {
        assert!(!stopped_growing(&steps(&[100.0, 100.0])));
        assert!(!stopped_growing(&steps(&[100.0, 90.0, 150.0])));
        assert!(stopped_growing(&steps(&[100.0, 90.0, 104.0])));
        assert!(stopped_growing(&steps(&[100.0, 200.0, 205.0, 180.0])));
    }

    #[test]
    fn doublings_end_at_the_bound() {
        assert_eq!(doublings(1), [1]);
        assert_eq!(doublings(4), [1, 2, 4]);
        assert_eq!(doublings(6), [1, 2, 4, 6]);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let waits = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(Pickup::of(waits), Some(Pickup { p50_ms: 101.0, p99_ms: 199.0, probes: 200 }));
        assert_eq!(Pickup::of(vec![]), None);
        assert_eq!(Pickup::of(vec![Duration::from_millis(14)]), None);
    }
}
