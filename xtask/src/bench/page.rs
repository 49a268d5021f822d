//! PERFORMANCE.md: people write the text. This module writes the parts between `<!-- begin NAME -->` and
//! `<!-- end NAME -->`.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{charts, line::Line, tables};

const PAGE: &str = "PERFORMANCE.md";
const CHARTS: &str = "docs/bench";

/// Writes the page and the charts to `out`. The text of the page comes from `root`. Parts that were not measured stay
/// unchanged.
pub(super) fn write(root: &Path, out: &Path, lines: &[Line]) -> Result<()> {
    let page = root.join(PAGE);
    let mut text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let charts = out.join(CHARTS);
    fs::create_dir_all(&charts).with_context(|| format!("cannot make {}", charts.display()))?;
    let (peers, own): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.peers);

    if let Some(line) = own.first() {
        text = replace(&text, "machine", &machine(line))?;
    }
    for (measure, lines) in by_measure(&own) {
        let body = body(&charts, measure, measure, &lines, tables::beside_raw(&lines))?;
        text = replace(&text, measure, &body)?;
    }
    if !peers.is_empty() {
        let mut bodies = versions(&peers);
        for (measure, lines) in by_measure(&peers) {
            let body = body(&charts, &format!("peers-{measure}"), measure, &lines, tables::beside_peers(&lines))?;
            let _ = write!(bodies, "\n### {measure}, beside others\n\n{body}");
        }
        text = replace(&text, "peers", &bodies)?;
    }

    let page = out.join(PAGE);
    fs::write(&page, text).with_context(|| format!("cannot write {}", page.display()))?;
    eprintln!("written: {} and the charts in {}", page.display(), charts.display());
    Ok(())
}

/// Groups the lines by measure, in the order in which they were measured.
fn by_measure<'l>(lines: &[&'l Line]) -> Vec<(&'l str, Vec<&'l Line>)> {
    let mut found: Vec<(&str, Vec<&Line>)> = Vec::new();
    for line in lines {
        match found.iter_mut().find(|(measure, _)| *measure == line.measure) {
            Some((_, lines)) => lines.push(line),
            None => found.push((&line.measure, vec![line])),
        }
    }
    found
}

/// Returns the table, and the charts below it.
fn body(charts: &Path, name: &str, title: &str, lines: &[&Line], mut text: String) -> Result<String> {
    for chart in charts::draw(charts, name, title, lines)? {
        let _ = write!(text, "\n![{title}]({CHARTS}/{chart})\n");
    }
    Ok(text)
}

/// Returns a table of the machine and the server settings.
fn machine(line: &Line) -> String {
    const NAMES: &[(&str, &str)] = &[
        ("jobs", "`diesel-jobs`"),
        ("cpu", "Processor"),
        ("cores", "Cores, shared by server and clients"),
        ("memory_gb", "Memory, GB"),
        ("os", "System"),
        ("server_version", "PostgreSQL"),
        ("fsync", "`fsync`"),
        ("synchronous_commit", "`synchronous_commit`"),
        ("shared_buffers", "`shared_buffers`"),
        ("max_wal_size", "`max_wal_size`"),
        ("max_connections", "`max_connections`"),
        ("ssl", "`ssl`"),
    ];
    let known = NAMES.iter().filter_map(|(key, title)| Some((*title, line.settings.get(*key)?)));
    let rows: String = known.map(|(title, value)| format!("| {title} | {} |\n", plain(value))).collect();
    format!("| | |\n| --- | --- |\n{rows}")
}

/// Returns the versions of the other job queues, and their settings.
fn versions(lines: &[&Line]) -> String {
    let mut versions: BTreeMap<&String, String> = BTreeMap::new();
    let mut settings: BTreeMap<&String, String> = BTreeMap::new();
    for line in lines {
        versions.extend(line.versions.iter().map(|(name, value)| (name, plain(value))));
        settings.extend(line.settings.iter().map(|(name, value)| (name, plain(value))));
    }
    let versions: Vec<String> = versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut text = format!("Versions: {}.\n\n", versions.join(", "));
    for (name, setting) in settings {
        let _ = writeln!(text, "- {name}: {setting}");
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the text with `body` between the two marks. Fails if a mark is missing.
fn replace(text: &str, name: &str, body: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let Some((before, rest)) = text.split_once(&begin) else {
        bail!("{PAGE} has no place for `{name}`\n  to fix: add the lines {begin}{end}");
    };
    let Some((_, after)) = rest.split_once(&end) else { bail!("{PAGE} lacks {end} after {begin}") };
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", body.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb <!-- end y -->\n";
        let once = replace(text, "x", "new\n").unwrap();
        assert_eq!(once, "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb <!-- end y -->\n");
        assert_eq!(replace(&once, "x", "new").unwrap(), once);
    }

    #[test]
    fn a_page_without_the_marks_is_an_error_that_says_what_to_add() {
        assert!(replace("", "x", "").unwrap_err().to_string().contains("<!-- begin x -->\n<!-- end x -->"));
        assert!(replace("<!-- begin x -->\n", "x", "").is_err());
    }
}
