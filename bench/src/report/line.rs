//! The result of one variant: one line of `--json`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::summary::{Summary, median};

/// One run: the measured figure, and further figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) value: f64,
    pub(crate) extra: Vec<(&'static str, Value)>,
}

impl Run {
    pub(crate) fn new(value: f64) -> Self {
        Self { value, extra: Vec::new() }
    }

    /// Adds a further figure. A variant reports the median over its runs.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.extra.push((name, value.into()));
        self
    }
}

/// The runs of one variant, of diesel-jobs and of the raw baseline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) ours: Vec<Run>,
    pub(crate) raw: Vec<Run>,
}

/// A value of both sides, or of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sides<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<T>,
}

impl<T> Sides<T> {
    fn new(ours: Option<T>, raw: Option<T>) -> Option<Self> {
        (ours.is_some() || raw.is_some()).then_some(Self { ours, raw })
    }
}

/// The result of a variant.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Line {
    pub(crate) measure: &'static str,
    pub(crate) variant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    pub(crate) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<Sides<Vec<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<Sides<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<Sides<f64>>,
    /// Further figures. Those of the raw baseline have the prefix `raw_`.
    #[serde(flatten)]
    pub(crate) extra: Map<String, Value>,
    pub(crate) settings: Map<String, Value>,
}

impl Line {
    pub(crate) fn new(measure: &'static str, variant: impl Into<String>, unit: &'static str) -> Self {
        Self { measure, variant: variant.into(), unit, ..Self::default() }
    }

    /// Fills in the figures of the runs.
    pub(crate) fn with(mut self, runs: &Runs) -> Self {
        let values = |runs: &[Run]| -> Option<Vec<f64>> {
            (!runs.is_empty()).then(|| runs.iter().map(|run| tidy(run.value)).collect())
        };
        let (ours, raw) = (values(&runs.ours), values(&runs.raw));
        let summary = |values: &Option<Vec<f64>>| values.as_deref().and_then(Summary::of);
        let (our_summary, raw_summary) = (summary(&ours), summary(&raw));
        self.ours = our_summary.map(|summary| tidy(summary.median));
        self.raw = raw_summary.map(|summary| tidy(summary.median));
        self.ratio = our_summary
            .zip(raw_summary)
            .filter(|(_, raw)| raw.median > 0.0)
            .map(|(ours, raw)| (ours.median / raw.median * 1000.0).round() / 1000.0);
        self.min = Sides::new(our_summary.map(|summary| summary.min), raw_summary.map(|summary| summary.min));
        self.max = Sides::new(our_summary.map(|summary| summary.max), raw_summary.map(|summary| summary.max));
        self.runs = Sides::new(ours, raw);
        self.extra.extend(extras("", &runs.ours));
        self.extra.extend(extras("raw_", &runs.raw));
        self
    }
}

/// Returns the median of each further figure over the runs. For a value that is not a number, it returns that of the
/// last run.
fn extras(prefix: &str, runs: &[Run]) -> BTreeMap<String, Value> {
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    for (name, value) in runs.iter().flat_map(|run| &run.extra) {
        let all = runs.iter().flat_map(|run| &run.extra).filter(|(other, _)| other == name);
        let numbers: Vec<f64> = all.filter_map(|(_, value)| value.as_f64()).collect();
        let value = if numbers.is_empty() { value.clone() } else { tidy(median(&numbers)).into() };
        found.insert(format!("{prefix}{name}"), value);
    }
    found
}

/// Rounds to whole numbers from 1000 on, to one decimal from 10 on, and to three decimals below. Further digits are
/// noise.
pub(crate) fn tidy(value: f64) -> f64 {
    let places = if value.abs() >= 1000.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<Run> {
        values.iter().map(|value| Run::new(*value).with("p99", value * 2.0)).collect()
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let runs = Runs { ours: runs(&[100.0, 300.0, 200.0]), raw: runs(&[400.0, 500.0, 100.0]) };
        let line = Line::new("drain", "one", "jobs/s").with(&runs);
        assert_eq!((line.ours, line.raw, line.ratio), (Some(200.0), Some(400.0), Some(0.5)));
        let json = serde_json::to_value(&line).unwrap();
        assert_eq!(json["min"], serde_json::json!({"ours": 100.0, "raw": 100.0}));
        assert_eq!(json["runs"]["ours"], serde_json::json!([100.0, 300.0, 200.0]));
        assert_eq!((&json["p99"], &json["raw_p99"]), (&400.0.into(), &800.0.into()));
        assert!(json.get("n").is_none());
    }

    #[test]
    fn a_line_without_raw_has_no_ratio() {
        let line = Line::new("idle", "one", "statements/min").with(&Runs { ours: runs(&[0.5]), raw: Vec::new() });
        assert_eq!((line.ours, line.raw, line.ratio), (Some(0.5), None, None));
        assert_eq!(serde_json::to_value(&line).unwrap()["runs"], serde_json::json!({"ours": [0.5]}));
    }

    #[test]
    fn further_digits_are_rounded_off() {
        assert_eq!([tidy(48_123.456), tidy(12.3456), tidy(0.123_456)], [48_123.0, 12.3, 0.123]);
    }
}
