//! The text format of Prometheus, version 0.0.4.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::histogram::Snapshot;
use super::names::{ALL, Metric, MetricType};

/// Collects samples in any order, and writes each metric with all its samples in one place, as the format demands.
#[derive(Default)]
pub(super) struct Page {
    samples: HashMap<&'static str, String>,
}

impl Page {
    /// Adds a counter or a gauge. `labels` are the values of the metric's labels, in their order.
    pub(super) fn sample(&mut self, metric: &Metric, labels: &[&str], value: f64) {
        let lines = self.samples.entry(metric.prometheus).or_default();
        line(lines, metric.prometheus, &pairs(metric, labels), value);
    }

    /// Adds a histogram. One without values is left out.
    pub(super) fn histogram(&mut self, metric: &Metric, labels: &[&str], Snapshot { buckets, count, sum }: &Snapshot) {
        if *count == 0 {
            return;
        }
        let (lines, name) = (self.samples.entry(metric.prometheus).or_default(), metric.prometheus);
        let pairs = pairs(metric, labels);
        let bucket = format!("{name}_bucket");
        let infinity = (f64::INFINITY, *count);
        for (bound, count) in buckets.iter().copied().chain([infinity]) {
            let bound = if bound.is_infinite() { "+Inf".to_owned() } else { bound.to_string() };
            let separator = if pairs.is_empty() { "" } else { "," };
            line(lines, &bucket, &format!("{pairs}{separator}le=\"{bound}\""), count as f64);
        }
        line(lines, &format!("{name}_sum"), &pairs, *sum);
        line(lines, &format!("{name}_count"), &pairs, *count as f64);
    }

    /// The whole text.
    pub(super) fn render(self) -> String {
        let mut text = String::new();
        for Metric { prometheus, kind, help, .. } in ALL {
            if let Some(lines) = self.samples.get(prometheus) {
                let (kind, help) = (MetricType::as_str(*kind), help.replace('\\', "\\\\").replace('\n', "\\n"));
                // Writing to a `String` does not fail.
                let _ = write!(text, "# HELP {prometheus} {help}\n# TYPE {prometheus} {kind}\n{lines}");
            }
        }
        text
    }
}

fn line(lines: &mut String, name: &str, pairs: &str, value: f64) {
    let _ = match pairs {
        "" => writeln!(lines, "{name} {value}"),
        _ => writeln!(lines, "{name}{{{pairs}}} {value}"),
    };
}

/// Labels with an empty value are the same as no label, so they are left out.
fn pairs(metric: &Metric, labels: &[&str]) -> String {
    let filled = metric.labels.iter().zip(labels).filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = filled.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    #[test]
    fn a_metric_is_written_with_its_help_its_type_and_escaped_labels() {
        let mut page = Page::default();
        page.sample(&names::RUNNING, &["a\"b\\c\nd"], 2.0);
        page.sample(&names::POLLS, &[], 1.5);
        page.sample(&names::RUNNING, &["mail"], 0.0);
        let expected = "\
# HELP jobs_polls_total How often this worker has asked whether a job is due, because a claim brought none.
# TYPE jobs_polls_total counter
jobs_polls_total 1.5
# HELP jobs_running Slots of this worker that are taken.
# TYPE jobs_running gauge
jobs_running{queue=\"a\\\"b\\\\c\\nd\"} 2
jobs_running{queue=\"mail\"} 0
";
        assert_eq!(page.render(), expected);
    }

    #[test]
    fn a_histogram_ends_with_infinity_sum_and_count() {
        let mut page = Page::default();
        let snapshot = Snapshot { buckets: vec![(0.5, 1), (1.0, 3)], count: 4, sum: 12.25 };
        page.histogram(&names::CLAIM_SIZE, &[], &snapshot);
        page.histogram(&names::PROCESS, &["mail", "greet", ""], &snapshot);
        let text = page.render();
        for line in [
            "jobs_claim_size_bucket{le=\"0.5\"} 1",
            "jobs_claim_size_bucket{le=\"1\"} 3",
            "jobs_claim_size_bucket{le=\"+Inf\"} 4",
            "jobs_claim_size_sum 12.25",
            "jobs_claim_size_count 4",
            "messaging_process_duration_seconds_bucket{queue=\"mail\",kind=\"greet\",le=\"+Inf\"} 4",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is missing in\n{text}");
        }
    }
}
