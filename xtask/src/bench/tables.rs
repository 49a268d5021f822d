//! The tables of PERFORMANCE.md.

use super::{
    line::{Figure, Line, Side},
    number::number,
};

/// Further columns: the key in a line, and the column's title.
const COLUMNS: &[(&str, &str)] = &[
    ("p50_ms", "p50, ms"),
    ("p99_ms", "p99, ms"),
    ("raw_copy", "raw COPY"),
    ("p50", "p50"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("slowest", "slowest"),
    ("first", "first window"),
    ("last_to_first", "last to first"),
    ("enqueued_per_second", "enqueued/s"),
    ("completed_per_second", "completed/s"),
    ("to_first_variant", "to the first row"),
    ("to_peak", "to the best row"),
    ("wal_bytes_per_job", "WAL bytes per job"),
    ("commits_per_job", "commits per job"),
    ("dead_rows", "dead rows at the end"),
    ("cpu_percent", "CPU, %"),
    ("at_start", "at the start"),
    ("most", "at most"),
];

/// Returns a table of diesel-jobs beside hand-written SQL.
pub(super) fn beside_raw(lines: &[&Line]) -> String {
    let raw = lines.iter().any(|line| side(line, "raw SQL").is_some());
    let columns: Vec<_> =
        COLUMNS.iter().filter(|(key, _)| lines.iter().any(|line| line.extra.contains_key(*key))).collect();
    let mut head = vec!["", "jobs"];
    if raw {
        head.extend(["raw SQL", "ratio"]);
    }
    head.push("unit");
    head.extend(columns.iter().map(|(_, title)| *title));
    let rows = lines.iter().map(|line| {
        let mut row = vec![line.variant.clone(), cell(line, "jobs")];
        if raw {
            row.extend([cell(line, "raw SQL"), line.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default()]);
        }
        row.push(line.unit.clone());
        row.extend(columns.iter().map(|(key, _)| further(line, key)));
        row
    });
    markdown(&head, rows)
}

/// Returns a table of diesel-jobs beside other job queues, and a list of the failed runs.
pub(super) fn beside_peers(lines: &[&Line]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for side in lines.iter().flat_map(|line| &line.sides) {
        if !names.contains(&side.name.as_str()) {
            names.push(&side.name);
        }
    }
    names.sort_by_key(|name| !name.starts_with("jobs"));
    let head: Vec<&str> = [""].into_iter().chain(names.iter().copied()).chain(["unit"]).collect();
    let rows = lines.iter().map(|line| {
        let cells = names.iter().map(|name| cell(line, name));
        [line.variant.clone()].into_iter().chain(cells).chain([line.unit.clone()]).collect()
    });
    let mut text = markdown(&head, rows);
    let mut failures: Vec<_> = lines.iter().flat_map(|line| &line.failures).collect();
    failures.sort();
    for same in failures.chunk_by(|one, next| one == next) {
        let ((name, why), times) = (same[0], same.len());
        text += &format!("\nLeft out: {times} run{} of {name}: {why}.\n", if times == 1 { "" } else { "s" });
    }
    text
}

fn side<'l>(line: &'l Line, name: &str) -> Option<&'l Side> {
    line.sides.iter().find(|side| side.name == name)
}

/// Returns the median, with the range unless all runs have the same figure.
fn cell(line: &Line, name: &str) -> String {
    let Some(Side { figure: Figure { median, min, max }, .. }) = side(line, name) else { return String::new() };
    let (median, min, max) = (number(*median), number(*min), number(*max));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

/// Returns a further figure, followed by the one of hand-written SQL.
fn further(line: &Line, key: &str) -> String {
    let figure = |key: &str| line.extra.get(key)?.as_f64().map(number);
    match (figure(key), figure(&format!("raw_{key}"))) {
        (Some(ours), Some(raw)) => format!("{ours} (raw {raw})"),
        (Some(ours), None) => ours,
        (None, _) => String::new(),
    }
}

fn markdown(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
    };
    let mut text = line(&head.iter().map(ToString::to_string).collect::<Vec<_>>());
    let names = ["", "unit"];
    let rules: Vec<_> =
        head.iter().map(|title| if names.contains(title) { "---" } else { "--:" }).map(str::to_owned).collect();
    text.push_str(&line(&rules));
    rows.for_each(|row| text.push_str(&line(&row)));
    text
}

#[cfg(test)]
mod tests {
    use super::{super::line, *};

    #[test]
    fn a_table_has_the_columns_that_its_lines_fill() {
        let lines = line::read(
            r#"{"measure":"m","variant":"a","unit":"ms","ours":1.5,"raw":1.0,"ratio":1.5,"min":{"ours":1.0,"raw":1.0},"max":{"ours":2.0,"raw":1.0},"p99":4,"raw_p99":3}
               {"measure":"m","variant":"b","unit":"ms","ours":2000}"#,
        )
        .unwrap();
        let expected = "\
|  | jobs | raw SQL | ratio | unit | p99 |
| --- | --: | --: | --: | --- | --: |
| a | 1.5 (1–2) | 1 | 1.50 | ms | 4 (raw 3) |
| b | 2,000 |  |  | ms |  |
";
        assert_eq!(beside_raw(&lines.iter().collect::<Vec<_>>()), expected);
    }

    #[test]
    fn peers_stand_side_by_side() {
        let lines = line::read(
            r#"{"measure":"m","variant":"a","unit":"jobs/s","systems":{"awa":{"median":1,"min":1,"max":1},"jobs":{"median":3,"min":2,"max":4}}}"#,
        )
        .unwrap();
        let expected = "|  | jobs | awa | unit |\n| --- | --: | --: | --- |\n| a | 3 (2–4) | 1 | jobs/s |\n";
        assert_eq!(beside_peers(&lines.iter().collect::<Vec<_>>()), expected);
    }

    #[test]
    fn failed_runs_are_listed_below_the_table() {
        let lines = line::read(
            r#"{"measure":"m","variant":"a","unit":"ms","systems":{"awa":{"runs":[],"failures":["lost a job","lost a job"]},"jobs":{"median":3,"min":3,"max":3}}}"#,
        )
        .unwrap();
        let expected =
            "|  | jobs | unit |\n| --- | --: | --- |\n| a | 3 | ms |\n\nLeft out: 2 runs of awa: lost a job.\n";
        assert_eq!(beside_peers(&lines.iter().collect::<Vec<_>>()), expected);
    }
}
