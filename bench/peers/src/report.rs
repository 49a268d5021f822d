//! Prints the results: a table for people, or one line of JSON per measure for programs.

use serde_json::{Map, Value, json};

use crate::name::Name;
use crate::stats;
use crate::systems;
use crate::versions;

/// The figures of one system, one per run.
pub(crate) struct Figures {
    pub(crate) system: Name,
    pub(crate) runs: Vec<f64>,
    /// The errors of runs without a figure.
    pub(crate) failures: Vec<String>,
    /// Further values.
    pub(crate) notes: Map<String, Value>,
}

/// One variant of one measure.
pub(crate) struct Report {
    pub(crate) measure: &'static str,
    pub(crate) variant: String,
    pub(crate) unit: &'static str,
    /// The number of jobs, if it is fixed.
    pub(crate) n: Option<usize>,
    pub(crate) figures: Vec<Figures>,
}

impl Report {
    fn json(&self, server: &str) -> Value {
        let mut line = Map::new();
        line.insert("measure".into(), self.measure.into());
        line.insert("variant".into(), self.variant.clone().into());
        if let Some(n) = self.n {
            line.insert("n".into(), n.into());
        }
        line.insert("unit".into(), self.unit.into());
        let mut systems = Map::new();
        let mut version = Map::new();
        let mut settings = Map::new();
        for Figures { system, runs, failures, notes } in &self.figures {
            let mut figures = Map::new();
            if !runs.is_empty() {
                let (min, max) = stats::range(runs);
                figures.insert("median".into(), self.round(stats::median(runs)));
                figures.insert("min".into(), self.round(min));
                figures.insert("max".into(), self.round(max));
            }
            figures.insert("runs".into(), runs.iter().map(|run| self.round(*run)).collect());
            if !failures.is_empty() {
                figures.insert("failures".into(), failures.clone().into());
            }
            figures.extend(notes.clone());
            systems.insert(system.text().into(), figures.into());
            version.insert(system.package().into(), versions::of(system.package()).into());
            settings.insert(system.text().into(), systems::of(*system).settings().into());
        }
        line.insert("systems".into(), systems.into());
        line.insert("versions".into(), version.into());
        line.insert("settings".into(), settings.into());
        line.insert("server".into(), server.into());
        line.into()
    }

    /// Rounds milliseconds to two decimals, and rates to whole numbers.
    fn round(&self, figure: f64) -> Value {
        let factor = if self.unit == "ms" { 100.0 } else { 1.0 };
        json!((figure * factor).round() / factor)
    }

    fn table(&self) -> String {
        let n = self.n.map(|n| format!(", n = {n}")).unwrap_or_default();
        let mut text = format!("{} ({}){n}, {}\n", self.measure, self.variant, self.unit);
        for Figures { system, runs, failures, .. } in &self.figures {
            let decimals = if self.unit == "ms" { 2 } else { 0 };
            let name = format!("{} {}", system.text(), versions::of(system.package()));
            if !runs.is_empty() {
                let (median, (min, max)) = (stats::median(runs), stats::range(runs));
                text += &format!("  {name:<26} {median:>10.decimals$}   ({min:.decimals$} .. {max:.decimals$})\n");
            }
            for failure in failures {
                text += &format!("  {name:<26} {:>10}   {failure}\n", "failed");
            }
        }
        text
    }

    /// Prints to standard output.
    #[expect(clippy::print_stdout, reason = "it is what the program is for")]
    pub(crate) fn print(&self, json: bool, server: &str) {
        if json {
            println!("{}", self.json(server));
        } else {
            println!("{}", self.table());
        }
    }
}

/// Prints progress.
#[expect(clippy::print_stderr, reason = "the standard output is for results")]
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}

/// Prints an error.
#[expect(clippy::print_stderr, reason = "the standard output is for results")]
pub(crate) fn complain(problem: &anyhow::Error) {
    eprintln!("error: {problem:#}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(unit: &'static str, runs: &[f64]) -> Report {
        let failures = if runs.is_empty() { vec!["lost a job".to_owned()] } else { Vec::new() };
        let figures = vec![Figures { system: Name::Jobs, runs: runs.to_vec(), failures, notes: Map::new() }];
        Report { measure: "drain", variant: "1 process".into(), unit, n: Some(10), figures }
    }

    #[test]
    fn a_line_of_json_has_the_runs_and_their_median() {
        let line = report("jobs/s", &[3.0, 1.4, 2.0]).json("a server");
        assert_eq!(line["systems"]["jobs"]["median"], 2.0);
        assert_eq!(line["systems"]["jobs"]["runs"], json!([3.0, 1.0, 2.0]));
        assert_eq!(line["n"], 10);
        assert!(line["settings"]["jobs"].is_string() && line["versions"]["jobs"].is_string());
    }

    #[test]
    fn milliseconds_keep_decimals() {
        assert!(report("ms", &[1.234]).table().contains("1.23"));
        assert!(report("jobs/s", &[1234.5]).table().contains("1234"));
    }

    #[test]
    fn a_system_without_runs_has_no_figure() {
        let report = report("ms", &[]);
        let line = report.json("a server");
        assert_eq!(line["systems"]["jobs"], json!({"runs": [], "failures": ["lost a job"]}));
        assert!(report.table().trim_end().ends_with("failed   lost a job"), "{}", report.table());
    }
}
