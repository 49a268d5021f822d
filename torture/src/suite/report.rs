//! The table: one row per run, and, where something broke, enough to find out what.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use torture::checker::{Kind, story};
use torture::process::lines_with;

use super::arena::Arena;
use super::run::{Run, quantile};

/// Histories of so many jobs are printed; the rest are in the database.
const STORIES: usize = 3;
/// Objections of one run that are printed.
const OBJECTIONS: usize = 20;

/// One row, and what stands below it if the test failed.
pub(super) struct Row {
    columns: String,
    below: String,
    held: bool,
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
    pub(super) fn new(arena: &Arena<'_>, run: Result<Run>, took: Duration) -> Self {
        let took = took.as_secs_f64();
        let run = match run {
            Ok(run) => run,
            Err(error) => {
                let columns = format!("| {} | | | | | | | {took:.1} | **did not end** |", arena.name);
                return Self { columns, below: below(arena, &format!("{error:#}\n")), held: false };
            }
        };
        // Logs that cannot be read have nothing to count.
        let refused = lines_with(arena.logs(), "was refused").unwrap_or_default();
        let held = run.violations.is_empty() && run.complaints.is_empty();
        let recovery = match (quantile(&run.recovery, 0.5), quantile(&run.recovery, 0.99)) {
            (Some(half), Some(most)) => format!("{half:.2} / {most:.2}"),
            _ => "–".to_owned(),
        };
        let columns = format!(
            "| {} | {} | {} | {} | {} | {refused} | {recovery} | {took:.1} | {} |",
            arena.name,
            run.load,
            run.faults,
            run.count(Kind::Lost),
            run.count(Kind::DoubleEffect),
            if held { "holds" } else { "**broken**" },
        );
        let below = if held { String::new() } else { below(arena, &objections(&run)) };
        Self { columns, below, held }
    }

    /// Whether everything was as promised.
    pub(super) fn held(&self) -> bool {
        self.held
    }

    pub(super) fn print(&self) {
        println!("{}", self.columns);
        if !self.below.is_empty() {
            println!("\n{}", self.below);
        }
    }
}

fn objections(run: &Run) -> String {
    let mut lines = run.complaints.clone();
    lines.extend(run.violations.iter().take(OBJECTIONS).map(ToString::to_string));
    if run.violations.len() > OBJECTIONS {
        lines.push(format!("and {} more", run.violations.len() - OBJECTIONS));
    }
    let numbers: BTreeSet<i64> = run.violations.iter().filter_map(|violation| violation.number).collect();
    lines.extend(numbers.into_iter().take(STORIES).map(|number| story(&run.record, number)));
    lines.join("\n") + "\n"
}

fn below(arena: &Arena<'_>, what: &str) -> String {
    let Arena { name, seed, .. } = arena;
    format!(
        "{what}\nthe logs are in {}; the database {} is kept until this test runs again\nagain: cargo xtask torture --test {name} --seed {seed}{}\n",
        arena.logs().display(),
        arena.url().split('?').next().unwrap_or_default(),
        if arena.short { " --short" } else { "" },
    )
}
