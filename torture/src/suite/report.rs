//! The table of results: one row per run, and details below it if something is wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use torture::checker::{Kind, story};
use torture::process::lines_with;

use super::fixture::Fixture;
use super::not_run::NotRun;
use super::run::{Run, quantile};

/// How many jobs' histories are printed. The database contains the others.
const STORIES: usize = 3;
/// The most violations of one run that are printed.
const OBJECTIONS: usize = 20;

/// One row, and the details below it if something is wrong.
pub(super) struct Row {
    columns: String,
    below: String,
    is_well: bool,
    is_unnoticed: bool,
}

/// Prints the head of the table.
pub(super) fn head(seed: u64) {
    println!("seed {seed}");
    println!(
        "| test | load | faults | lost | double effects | stale writes refused | recovery p50 / p99, s | took, s | verdict |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|---|");
}

impl Row {
    pub(super) fn new(fixture: &Fixture<'_>, run: Result<Run>, took: Duration) -> Self {
        let took = took.as_secs_f64();
        let name = fixture.mutant().map_or_else(
            || fixture.name.to_owned(),
            |running| format!("{} on {}", fixture.name, running.mutant().name),
        );
        let run = match run {
            Ok(run) => run,
            Err(error) => {
                let verdict = if error.is::<NotRun>() { "not run" } else { "did not end" };
                let columns = format!("| {name} | | | | | | | {took:.1} | **{verdict}** |");
                return Self {
                    columns,
                    below: below(fixture, &format!("{error:#}\n")),
                    is_well: false,
                    is_unnoticed: false,
                };
            }
        };
        // If the logs cannot be read, the count is 0.
        let refused = lines_with(fixture.logs(), "was refused").unwrap_or_default();
        let recovery = match (quantile(&run.recovery, 0.5), quantile(&run.recovery, 0.99)) {
            (Some(half), Some(most)) => format!("{half:.2} / {most:.2}"),
            _ => "–".to_owned(),
        };
        let held = run.holds();
        let (verdict, is_well) = match fixture.mutant() {
            None if held && !run.late.is_empty() => (format!("holds; not judged: {}", run.late.join("; ")), true),
            None if held => ("holds".to_owned(), true),
            None => ("**broken**".to_owned(), false),
            Some(mutant) if !mutant.is_complete() => ("**the mutant is not one**".to_owned(), false),
            Some(_) if held => ("**not noticed**".to_owned(), false),
            Some(_) => (format!("noticed: {}", first_objection(&run)), true),
        };
        let columns = format!(
            "| {name} | {} | {} | {} | {} | {refused} | {recovery} | {took:.1} | {verdict} |",
            run.load,
            run.faults,
            run.count(Kind::Lost),
            run.count(Kind::DoubleEffect),
        );
        let below = if is_well { String::new() } else { below(fixture, &objections(&run)) };
        Self {
            columns,
            below,
            is_well,
            is_unnoticed: held && fixture.mutant().is_some_and(|mutant| mutant.is_complete()),
        }
    }

    /// Whether a run on a mutant found nothing wrong.
    pub(super) fn is_unnoticed(&self) -> bool {
        self.is_unnoticed
    }

    /// Whether the product held its guarantees, or its mutant was noticed.
    pub(super) fn is_well(&self) -> bool {
        self.is_well
    }

    pub(super) fn print(&self) {
        println!("{}", self.columns);
        if !self.below.is_empty() {
            println!("\n{}", self.below);
        }
    }
}

fn first_objection(run: &Run) -> String {
    let others = run.complaints.iter().chain(&run.late).cloned();
    run.violations.iter().map(ToString::to_string).chain(others).next().unwrap_or_default()
}

fn objections(run: &Run) -> String {
    let mut lines = [&*run.complaints, &*run.late].concat();
    lines.extend(run.violations.iter().take(OBJECTIONS).map(ToString::to_string));
    if run.violations.len() > OBJECTIONS {
        lines.push(format!("and {} more", run.violations.len() - OBJECTIONS));
    }
    let numbers: BTreeSet<i64> = run.violations.iter().filter_map(|violation| violation.number).collect();
    lines.extend(numbers.into_iter().take(STORIES).map(|number| story(&run.record, number)));
    lines.join("\n") + "\n"
}

fn below(fixture: &Fixture<'_>, what: &str) -> String {
    let Fixture { name, seed, .. } = fixture;
    let mutant = fixture.mutant().map(|running| format!(" --mutant {}", running.mutant().name)).unwrap_or_default();
    let fault =
        fixture.mutant().map(|running| format!("the mutant's fault: {}\n", running.mutant().fault)).unwrap_or_default();
    format!(
        "{fault}{what}\nthe logs are in {}; the database {} is kept until this test runs again\nagain: cargo xtask torture --test {name} --seed {seed}{}{}{mutant}\n",
        fixture.logs().display(),
        fixture.url().split('?').next().unwrap_or_default(),
        if fixture.short { " --short" } else { "" },
        if fixture.untimed { " --untimed" } else { "" },
    )
}
