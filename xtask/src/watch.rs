//! `cargo xtask watch`: everything whose verdict depends on time or chance, in optimised builds and on a machine
//! without other work.
//!
//! What `cargo xtask test` leaves out is judged here: milliseconds, rates and percentiles, all mutants, and all
//! versions of PostgreSQL.

use std::{path::Path, time::Instant};

use anyhow::{Result, bail};
use clap::Args;

/// Each step by its name, and the command that it is.
const STEPS: [(&str, &str); 7] = [
    ("measured", "test -- --release --test measured"),
    ("versions", "versions"),
    ("torture", "torture"),
    ("mutants", "torture --short --mutants"),
    ("bench", "bench"),
    ("pages", "pages postgres"),
    ("pages-sqlite", "pages sqlite"),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Some steps only [default: all]
    #[arg(value_name = "STEP", value_parser = STEPS.map(|(name, _)| name))]
    steps: Vec<String>,
}

/// Runs the steps, even after one has failed. Prints a line for each at the end.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    let asked = |name: &str| options.steps.is_empty() || options.steps.iter().any(|asked| asked == name);
    for (name, command) in STEPS.iter().filter(|(name, _)| asked(name)) {
        let begun = Instant::now();
        let verdict = match crate::perform(root, command.split(' ')) {
            Ok(()) => "held",
            Err(error) => {
                eprintln!("\nerror: {error:#}\n");
                failed.push(*name);
                "FAILED"
            }
        };
        lines.push(format!("{name:<12}{:>8.1} s  {verdict}  cargo xtask {command}", begun.elapsed().as_secs_f64()));
    }
    println!("\n{}", lines.join("\n"));
    if !failed.is_empty() {
        bail!("{} failed\n  to fix: read its output above; one step alone: cargo xtask watch STEP", failed.join(", "));
    }
    Ok(())
}
