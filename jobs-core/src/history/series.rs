//! What charts and tables show of the history: outcomes and quantiles, by time or by queue and kind.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::bins::Bins;
use super::counts::{HistoryRow, WorkCounts};
use super::fold::fold;
use crate::storage_error::StorageError;

/// Which part of the history is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkFilter {
    /// Only this queue.
    pub queue: Option<String>,
    /// Only these kinds. Empty: all.
    pub kinds: Vec<String>,
}

/// Quantiles of durations, in seconds. They are estimated, and at most a factor of the square root of two off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// Half of the durations are at most this long.
    pub p50: f64,
    /// 95 of 100 durations are at most this long.
    pub p95: f64,
    /// 99 of 100 durations are at most this long.
    pub p99: f64,
    /// The mean. It is exact.
    pub mean: f64,
}

impl Quantiles {
    /// `None` if no duration was counted.
    fn of(bins: &Bins, sum: f64) -> Option<Self> {
        let (p50, p95, p99) = (bins.quantile(0.5)?, bins.quantile(0.95)?, bins.quantile(0.99)?);
        Some(Self { p50, p95, p99, mean: sum / bins.total() as f64 })
    }
}

/// What was done, as charts and tables show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Completed jobs.
    pub completed: u64,
    /// Failed attempts that are followed by another one.
    pub retried: u64,
    /// Jobs that failed permanently.
    pub discarded: u64,
    /// Jobs that their handler cancelled.
    pub cancelled: u64,
    /// Jobs that their handler put off.
    pub snoozed: u64,
    /// From `run_at` to the start. `None` if no attempt started.
    pub wait: Option<Quantiles>,
    /// From the start to the end. `None` if no attempt started.
    pub run: Option<Quantiles>,
}

impl From<&WorkCounts> for Summary {
    fn from(counts: &WorkCounts) -> Self {
        Self {
            completed: counts.completed,
            retried: counts.retried,
            discarded: counts.discarded,
            cancelled: counts.cancelled,
            snoozed: counts.snoozed,
            wait: Quantiles::of(&counts.waits, counts.wait_seconds),
            run: Quantiles::of(&counts.runs, counts.run_seconds),
        }
    }
}

impl Summary {
    /// The share of failed attempts among those that completed or failed, from 0 to 1. `None` if there are none.
    pub fn failed_share(&self) -> Option<f64> {
        let failed = self.retried + self.discarded;
        let all = failed + self.completed;
        (all > 0).then(|| failed as f64 / all as f64)
    }
}

/// What was done in one step of a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The beginning of the step.
    pub at: DateTime<Utc>,
    /// How much of the step is over, in seconds. Only the last point has less than a whole step.
    pub seconds: f64,
    /// What was done.
    #[serde(flatten)]
    pub work: Summary,
}

/// What was done with the jobs of a queue and kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindRate {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The length of the time in which it was done, in seconds.
    pub seconds: f64,
    /// What was done.
    #[serde(flatten)]
    pub work: Summary,
}

impl KindRate {
    /// Completed jobs per minute.
    pub fn completed_per_minute(&self) -> f64 {
        if self.seconds > 0.0 { self.work.completed as f64 * 60.0 / self.seconds } else { 0.0 }
    }
}

/// How fast the jobs of a queue were completed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueRates {
    /// The queue.
    pub queue: String,
    /// Completed jobs per minute, in each step.
    pub completed_per_minute: Vec<f64>,
}

/// The time that a chart shows, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesBounds {
    /// The beginning of the first step. It is a multiple of the step since 1970.
    pub from: DateTime<Utc>,
    /// The end of the last whole minute.
    pub until: DateTime<Utc>,
    /// The length of a step, in microseconds.
    pub step_micros: i64,
}

/// The most points of a chart.
const MOST_POINTS: i64 = 2000;
const MINUTE: i64 = 60_000_000;

impl SeriesBounds {
    /// The last `range` before the database's time `now`. Fails if the step is shorter than a minute, or if there were
    /// too many steps.
    pub fn new(now: DateTime<Utc>, range: Duration, step: Duration) -> Result<Self, StorageError> {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let (range, step_micros) = (micros(range), micros(step));
        if step_micros < MINUTE || range / step_micros >= MOST_POINTS {
            return Err(StorageError::Config(format!(
                "a chart has steps of at least a minute and at most {MOST_POINTS} of them; {step:?} is too short"
            )));
        }
        let until = now.timestamp_micros().div_euclid(MINUTE) * MINUTE;
        let from = until.saturating_sub(range).div_euclid(step_micros).saturating_mul(step_micros);
        match (DateTime::from_timestamp_micros(from), DateTime::from_timestamp_micros(until)) {
            (Some(from), Some(until)) => Ok(Self { from, until, step_micros }),
            _ => Err(StorageError::Config("this range is before the beginning of the calendar".to_owned())),
        }
    }

    /// One step from the beginning to the end.
    pub fn whole(now: DateTime<Utc>, range: Duration) -> Result<Self, StorageError> {
        let bounds = Self::new(now, range, Duration::from_secs(60).max(range))?;
        let range = TimeDelta::from_std(range).unwrap_or(TimeDelta::MAX);
        let from = bounds.until.checked_sub_signed(range).unwrap_or(bounds.from);
        Ok(Self { from, ..bounds })
    }

    /// The number of the step in which this time is.
    fn step_of(&self, at: DateTime<Utc>) -> i64 {
        (at - self.from).num_microseconds().unwrap_or(0).div_euclid(self.step_micros)
    }

    /// How long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.until - self.from).as_seconds_f64()
    }
}

/// Makes a point of each step, including those in which nothing was done. Rows outside the bounds are left out.
pub fn points(bounds: &SeriesBounds, rows: impl IntoIterator<Item = (DateTime<Utc>, WorkCounts)>) -> Vec<Point> {
    let whole = (bounds.until - bounds.from).num_microseconds().unwrap_or(0);
    let steps = (whole + bounds.step_micros - 1).div_euclid(bounds.step_micros).max(0);
    let mut sums = vec![WorkCounts::default(); usize::try_from(steps).unwrap_or_default()];
    for (at, counts) in rows {
        if let Some(sum) = usize::try_from(bounds.step_of(at)).ok().and_then(|step| sums.get_mut(step)) {
            sum.merge(&counts);
        }
    }
    let point = |(step, counts): (i64, &WorkCounts)| Point {
        at: bounds.from + TimeDelta::microseconds(step * bounds.step_micros),
        seconds: (whole - step * bounds.step_micros).min(bounds.step_micros) as f64 / 1e6,
        work: Summary::from(counts),
    };
    (0..).zip(&sums).map(point).collect()
}

/// Makes the rates of each queue that has rows: a time in the step, and how many jobs were completed.
pub fn queue_rates(
    bounds: &SeriesBounds,
    rows: impl IntoIterator<Item = (String, DateTime<Utc>, u64)>,
) -> Vec<QueueRates> {
    let mut of_queue: BTreeMap<String, Vec<(DateTime<Utc>, WorkCounts)>> = BTreeMap::new();
    for (queue, at, completed) in rows {
        of_queue.entry(queue).or_default().push((at, WorkCounts { completed, ..WorkCounts::default() }));
    }
    let rate =
        |point: Point| if point.seconds > 0.0 { point.work.completed as f64 * 60.0 / point.seconds } else { 0.0 };
    let rates = |(queue, rows)| QueueRates {
        queue,
        completed_per_minute: points(bounds, rows).into_iter().map(rate).collect(),
    };
    of_queue.into_iter().map(rates).collect()
}

/// Joins the rows of each queue and kind.
pub fn kind_rates(seconds: f64, rows: impl IntoIterator<Item = HistoryRow>) -> Vec<KindRate> {
    let rate = |HistoryRow { queue, kind, counts }| KindRate { queue, kind, seconds, work: Summary::from(&counts) };
    fold(rows).into_iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn time(text: &str) -> DateTime<Utc> {
        text.parse().unwrap_or_default()
    }

    fn bounds(range: Duration, step: Duration) -> SeriesBounds {
        SeriesBounds::new(time("2026-03-01T10:20:30Z"), range, step).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn steps_are_aligned_and_the_last_one_is_partial() {
        let bounds = bounds(24 * HOUR, HOUR / 4);
        assert_eq!((bounds.from, bounds.until), (time("2026-02-28T10:15:00Z"), time("2026-03-01T10:20:00Z")));
        let counts = WorkCounts { completed: 3, ..WorkCounts::default() };
        let rows = ["2026-02-28T10:15:00Z", "2026-03-01T10:16:00Z", "2026-03-01T10:20:00Z", "2026-02-28T10:14:00Z"];
        let points = points(&bounds, rows.map(|at| (time(at), counts.clone())));
        assert_eq!(points.len(), 97);
        assert_eq!((points[0].seconds, points[0].work.completed), (900.0, 3));
        assert_eq!((points[96].at, points[96].seconds), (time("2026-03-01T10:15:00Z"), 300.0));
        assert_eq!(points.iter().map(|point| point.work.completed).sum::<u64>(), 3 * 3, "the step continues to 10:30");
    }

    #[test]
    fn too_many_or_too_short_steps_are_refused() {
        for (range, step) in [(HOUR, Duration::from_secs(59)), (10_000 * HOUR, HOUR), (Duration::MAX, HOUR)] {
            assert!(SeriesBounds::new(Utc::now(), range, step).is_err(), "{range:?} by {step:?}");
        }
    }

    #[test]
    fn failures_are_a_share_of_completed_and_failed_attempts() {
        let work = Summary { completed: 6, retried: 1, discarded: 1, snoozed: 9, ..Summary::default() };
        assert_eq!((work.failed_share(), Summary::default().failed_share()), (Some(0.25), None));
    }
}
