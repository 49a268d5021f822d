//! Parses a line of results, in the format of `jobs-bench --json` and of the comparison with other job queues.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The result of one variant of a measure.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Whether it is a comparison with other job queues. Otherwise it is one with hand-written SQL.
    pub(super) peers: bool,
    pub(super) measure: String,
    pub(super) variant: String,
    pub(super) unit: String,
    /// The compared systems. diesel-jobs comes first.
    pub(super) sides: Vec<Side>,
    /// Runs without a figure: the system, and the error.
    pub(super) failures: Vec<(String, String)>,
    /// The ratio of diesel-jobs to hand-written SQL.
    pub(super) ratio: Option<f64>,
    /// Further figures. Those of hand-written SQL have the prefix `raw_`.
    pub(super) extra: Map<String, Value>,
    pub(super) settings: Map<String, Value>,
    pub(super) versions: Map<String, Value>,
}

/// A compared system and its figure.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) name: String,
    pub(super) figure: Figure,
}

/// Median, minimum and maximum over the runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

#[derive(Deserialize)]
struct Wire {
    measure: String,
    variant: String,
    unit: String,
    ours: Option<f64>,
    raw: Option<f64>,
    ratio: Option<f64>,
    #[serde(default)]
    min: BTreeMap<String, f64>,
    #[serde(default)]
    max: BTreeMap<String, f64>,
    systems: Option<BTreeMap<String, System>>,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    versions: Map<String, Value>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct System {
    /// `None` if all of its runs failed.
    #[serde(flatten)]
    figure: Option<Figure>,
    #[serde(default)]
    failures: Vec<String>,
}

/// Parses the lines of a file.
pub(super) fn read(text: &str) -> Result<Vec<Line>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| parse(line).with_context(|| format!("line {}", at + 1))).collect()
}

/// Adds newer lines. A newer line replaces the older line of the same variant.
pub(super) fn merge(lines: &mut Vec<Line>, newer: Vec<Line>) {
    for line in newer {
        let same = |other: &&mut Line| {
            (other.peers, &other.measure, &other.variant) == (line.peers, &line.measure, &line.variant)
        };
        match lines.iter_mut().find(same) {
            Some(place) => *place = line,
            None => lines.push(line),
        }
    }
}

fn parse(line: &str) -> Result<Line> {
    let Wire { measure, variant, unit, ours, raw, ratio, min, max, systems, settings, versions, extra } =
        serde_json::from_str(line)?;
    let peers = systems.is_some();
    let mut failures = Vec::new();
    let sides = match systems {
        Some(systems) => {
            let mut sides = Vec::new();
            for (name, System { figure, failures: failed }) in systems {
                failures.extend(failed.into_iter().map(|failure| (name.clone(), failure)));
                sides.extend(figure.map(|figure| Side { name, figure }));
            }
            sides.sort_by_key(|side| !side.name.starts_with("jobs"));
            sides
        }
        None => [("jobs", "ours", ours), ("raw SQL", "raw", raw)]
            .into_iter()
            .filter_map(|(name, key, median)| {
                let median = median?;
                let bound = |bounds: &BTreeMap<String, f64>| bounds.get(key).copied().unwrap_or(median);
                Some(Side { name: name.to_owned(), figure: Figure { median, min: bound(&min), max: bound(&max) } })
            })
            .collect(),
    };
    Ok(Line { peers, measure, variant, unit, sides, failures, ratio, extra, settings, versions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_of_a_line_are_parsed() {
        let lines = read(
            r#"{"measure":"drain","variant":"1","unit":"jobs/s","ours":8.0,"raw":10.0,"ratio":0.8,"min":{"ours":7.0,"raw":9.0},"max":{"ours":9.0,"raw":11.0},"p99":3.0,"settings":{"cores":2}}

               {"measure":"drain","variant":"1","unit":"jobs/s","systems":{"awa":{"median":1,"min":1,"max":1,"runs":[1]},"jobs":{"median":2,"min":1,"max":3}},"versions":{"awa":"0.6"}}"#,
        )
        .unwrap();
        let names = |line: &Line| line.sides.iter().map(|side| side.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&lines[0]), lines[0].peers), (vec!["jobs".to_owned(), "raw SQL".to_owned()], false));
        assert_eq!(lines[0].sides[1].figure, Figure { median: 10.0, min: 9.0, max: 11.0 });
        assert_eq!(lines[0].extra["p99"], 3.0);
        assert_eq!((names(&lines[1]), lines[1].peers), (vec!["jobs".to_owned(), "awa".to_owned()], true));
    }

    #[test]
    fn a_system_whose_runs_all_failed_has_no_figure() {
        let text = r#"{"measure":"drain","variant":"1","unit":"jobs/s","systems":{"awa":{"runs":[],"failures":["lost a job"]}}}"#;
        let lines = read(text).unwrap();
        assert!(lines[0].sides.is_empty());
        assert_eq!(lines[0].failures, [("awa".to_owned(), "lost a job".to_owned())]);
    }

    #[test]
    fn a_newer_line_replaces_the_same_variant_only() {
        let line = |variant: &str, ours: f64| {
            read(&format!(r#"{{"measure":"m","variant":"{variant}","unit":"u","ours":{ours}}}"#)).unwrap()
        };
        let mut lines = line("a", 1.0);
        merge(&mut lines, line("b", 2.0));
        merge(&mut lines, line("a", 3.0));
        let found: Vec<f64> = lines.iter().map(|line| line.sides[0].figure.median).collect();
        assert_eq!(found, [3.0, 2.0]);
    }

    #[test]
    fn a_broken_line_is_named() {
        assert!(format!("{:#}", read("{}").unwrap_err()).starts_with("line 1"));
    }
}
