//! The dashboard, the alert rules and the guide name only metrics that exist, with labels that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use jobs::metrics::{Metric, MetricType, names};
use serde_json::Value;

/// What a query may contain that is no metric and no label of ours.
const WORDS: [&str; 24] = [
    "sum",
    "by",
    "le",
    "rate",
    "increase",
    "max",
    "min",
    "absent",
    "histogram_quantile",
    "job",
    "instance",
    "without",
    "and",
    "or",
    "unless",
    "on",
    "avg",
    "count",
    "clamp_min",
    "label_values",
    "__rate_interval",
    "m",
    "queue",
    "kind",
];

fn read(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The names of all series, with the labels of each.
fn known() -> BTreeMap<String, &'static [&'static str]> {
    let series = |metric: &'static Metric| -> Vec<String> {
        match metric.kind {
            MetricType::Histogram => {
                ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", metric.prometheus)).into()
            }
            _ => vec![metric.prometheus.to_owned()],
        }
    };
    names::ALL.iter().flat_map(|metric| series(metric).into_iter().map(|name| (name, metric.labels))).collect()
}

/// The words of a query, without texts in quotes.
fn words(query: &str) -> Vec<&str> {
    let outside = query.split('"').step_by(2);
    outside
        .flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        .collect()
}

/// Checks a query, and returns its metrics.
fn check(query: &str) -> BTreeSet<String> {
    let known = known();
    let used: BTreeSet<String> =
        words(query).into_iter().filter(|word| known.contains_key(*word)).map(str::to_owned).collect();
    assert!(!used.is_empty(), "no metric in {query}");
    for word in words(query).into_iter().filter(|word| !used.contains(*word)) {
        let label = used.iter().any(|metric| known[metric].contains(&word));
        assert!(label || WORDS.contains(&word), "{word:?} is no metric and no label of {used:?}, in {query}");
    }
    used
}

fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(query) if name == "expr" || (name == "query" && query.contains('(')) => {
                        found.push(query.clone());
                    }
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(&read("docs/grafana/diesel-jobs.json")).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    let shown: BTreeSet<String> = found.iter().flat_map(|query| check(query)).collect();
    for Metric { prometheus, .. } in names::ALL {
        assert!(shown.iter().any(|series| series.starts_with(prometheus)), "{prometheus} is not shown");
    }
}

#[test]
fn the_alerts_use_only_metrics_that_exist() {
    let alerts = read("docs/grafana/alerts.yml");
    let mut lines = alerts.lines().peekable();
    let mut rules = 0;
    while let Some(line) = lines.next() {
        let Some(first) = line.trim().strip_prefix("expr:") else { continue };
        let indent = |line: &str| line.len() - line.trim_start().len();
        let mut query = first.trim().trim_start_matches('|').to_owned();
        while let Some(more) = lines.next_if(|next| indent(next) > indent(line)) {
            query.push_str(more);
        }
        check(&query);
        rules += 1;
    }
    assert_eq!(rules, alerts.matches("- alert:").count());
}

#[test]
fn the_guide_describes_every_metric() {
    let guide = read("docs/guide/monitoring.md");
    let table: Vec<&str> = guide.lines().filter(|line| line.starts_with("| `")).collect();
    for Metric { prometheus, kind, labels, .. } in names::ALL {
        let name = format!("`{prometheus}`");
        let row = table.iter().find(|row| row.split('|').nth(1).is_some_and(|cell| cell.contains(&name)));
        let row = row.unwrap_or_else(|| panic!("{prometheus} is not in the guide"));
        assert!(row.contains(kind.as_str()), "{row}");
        for label in *labels {
            assert!(row.contains(&format!("`{label}`")), "{label} is missing in {row}");
        }
    }
    for row in
        table.iter().filter(|row| row.contains(" counter ") || row.contains(" gauge ") || row.contains(" histogram "))
    {
        for name in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
            assert!(names::ALL.iter().any(|metric| metric.prometheus == name), "{name} does not exist");
        }
    }
}
