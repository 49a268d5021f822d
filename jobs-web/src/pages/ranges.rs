//! The charts of what was done, and the times that they show.

use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs_core::history::{Point, Quantiles, Summary};

use crate::chart::{Chart, Data, Form, Series, Unit};
use crate::failure::Failure;

/// A time that charts show: its name in the address and on the page, its length and the length of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    name: &'static str,
    pub(super) range: Duration,
    pub(super) step: Duration,
}

/// A link to another range: its name, its address, and whether it is the one that is shown.
pub(super) type Tab = (&'static str, String, bool);

const RANGES: [Range; 3] = [
    Range { name: "1h", range: Duration::from_secs(3600), step: Duration::from_secs(60) },
    Range { name: "24h", range: Duration::from_secs(24 * 3600), step: Duration::from_secs(15 * 60) },
    Range { name: "7d", range: Duration::from_secs(7 * 24 * 3600), step: Duration::from_secs(3600) },
];

impl Range {
    /// Reads the range of the address.
    pub(super) fn read(pairs: &[(String, String)]) -> Result<Self, Failure> {
        let named = pairs.iter().rfind(|(name, _)| name == "range");
        let known = named.map(|(_, value)| RANGES.into_iter().find(|range| range.name == value));
        let wrong = || Failure::Malformed("Write ?range=1h, ?range=24h or ?range=7d.".to_owned());
        known.map_or(Ok(RANGES[0]), |known| known.ok_or_else(wrong))
    }

    pub(super) fn tabs(self, url: impl Fn(&str) -> String) -> Vec<Tab> {
        RANGES.map(|other| (other.name, url(other.name), other == self)).into()
    }
}

/// The charts of what was done.
pub(super) fn charts(points: &[Point], step: Duration) -> Vec<Chart> {
    let times: Vec<_> = points.iter().map(|point| point.at).collect();
    let step = TimeDelta::from_std(step).unwrap_or(TimeDelta::minutes(1));
    let a_minute = |point: &Point, number: u64| {
        // A step that has just begun is shorter.
        #[expect(clippy::cast_precision_loss, reason = "a chart shows no more than three digits")]
        let number = number as f64;
        Some(if point.seconds > 0.0 { number * 60.0 / point.seconds } else { 0.0 })
    };
    let series = |name, class, value: &dyn Fn(&Point) -> Option<f64>| Series {
        name,
        class,
        values: points.iter().map(value).collect(),
    };
    let quantiles = |title, part: fn(&Summary) -> Option<Quantiles>| Data {
        title,
        unit: Unit::Seconds,
        form: Form::Lines,
        times: &times,
        step,
        series: vec![
            series("median", "c1", &|point| part(&point.work).map(|times| times.p50)),
            series("95 %", "c2", &|point| part(&point.work).map(|times| times.p95)),
        ],
    };
    let done = Data {
        title: "Attempts per minute",
        unit: Unit::Jobs,
        form: Form::Bars,
        times: &times,
        step,
        series: vec![
            series("completed", "c1", &|point| a_minute(point, point.work.completed)),
            series("failed", "c3", &|point| a_minute(point, point.work.retried + point.work.discarded)),
        ],
    };
    let failed = Data {
        title: "Failed attempts",
        unit: Unit::Percent,
        form: Form::Lines,
        times: &times,
        step,
        series: vec![series("failed", "c3", &|point| point.work.failed_share().map(|share| share * 100.0))],
    };
    [done, failed, quantiles("Wait time", |work| work.wait), quantiles("Run time", |work| work.run)]
        .iter()
        .map(Chart::new)
        .collect()
}
