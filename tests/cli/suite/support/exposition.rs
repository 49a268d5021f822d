//! A strict parser of the text format of Prometheus, version 0.0.4. It refuses what a scraper might only tolerate.

use std::collections::{BTreeMap, BTreeSet};

/// The labels of a sample, sorted.
type Labels = BTreeMap<String, String>;

/// All samples, by name and labels.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) samples: BTreeMap<(String, Labels), f64>,
    /// The type of each metric.
    pub(crate) types: BTreeMap<String, String>,
}

impl Exposition {
    /// Parses the text, and panics if it breaks a rule of the format.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n') && !text.contains('\r'), "the last line must end, and lines end with \\n alone");
        let mut exposition = Self::default();
        let mut current: Option<(String, String)> = None;
        let mut helped = None;
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(is_name(name) && !help.is_empty(), "{line}");
                helped = Some(name.to_owned());
            } else if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').unwrap();
                assert_eq!(helped.take().as_deref(), Some(name), "HELP stands before TYPE");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let before = exposition.types.insert(name.to_owned(), kind.to_owned());
                assert!(before.is_none(), "all samples of {name} must stand together");
                current = Some((name.to_owned(), kind.to_owned()));
            } else {
                let (family, kind) = current.as_ref().unwrap_or_else(|| panic!("no TYPE before {line}"));
                let (name, labels, value) = sample(line);
                let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                let suffix = name.strip_prefix(family.as_str()).unwrap_or("?");
                assert!(allowed.contains(&suffix), "{name} is no sample of {family}");
                assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
                assert!(kind == "gauge" || value >= 0.0, "{line}");
                let before = exposition.samples.insert((name, labels), value);
                assert!(before.is_none(), "twice: {line}");
            }
        }
        exposition.check_histograms();
        exposition
    }

    /// The buckets of a histogram grow, end with `+Inf`, and `+Inf` is the count.
    fn check_histograms(&self) {
        let histograms: Vec<&String> =
            self.types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name).collect();
        for name in histograms {
            let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
            for ((_, labels), count) in
                self.samples.iter().filter(|((sample, _), _)| *sample == format!("{name}_bucket"))
            {
                let mut labels = labels.clone();
                let bound = labels.remove("le").unwrap();
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                series.entry(labels).or_default().push((bound, *count));
            }
            assert!(!series.is_empty(), "{name} has no buckets");
            for (labels, mut buckets) in series {
                buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
                assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{name} {labels:?}: {buckets:?}");
                let (last, total) = *buckets.last().unwrap();
                assert!(last.is_infinite(), "{name} {labels:?} has no +Inf");
                let part = |part: &str| self.samples.get(&(format!("{name}_{part}"), labels.clone())).copied();
                assert_eq!(part("count"), Some(total), "{name} {labels:?}");
                assert!(part("sum").is_some(), "{name} {labels:?} has no sum");
            }
        }
    }

    /// The sum of the samples with this name that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |given: &Labels| labels.iter().all(|(label, value)| given.get(*label).is_some_and(|it| it == value));
        self.samples.iter().filter(|((sample, given), _)| sample == name && has(given)).map(|(_, value)| value).sum()
    }

    /// The different values of a label.
    pub(crate) fn values(&self, label: &str) -> BTreeSet<&str> {
        self.samples.keys().filter_map(|(_, labels)| labels.get(label)).map(String::as_str).collect()
    }
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let (name, rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    let value = match rest.strip_prefix('{') {
        Some(mut rest) => loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label), "{line}");
            let (value, after) = quoted(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice: {line}");
            match after.strip_prefix(',') {
                Some(next) => rest = next,
                None => break after.strip_prefix("} ").unwrap_or_else(|| panic!("{line}")),
            }
        },
        None => &rest[1..],
    };
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

/// The text up to the closing quote, and what follows.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                other => panic!("an unknown escape: {other:?}"),
            },
            '\n' => panic!("a line break in a label"),
            other => value.push(other),
        }
    }
    panic!("no closing quote: {text}")
}
