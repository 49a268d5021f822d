//! `cargo xtask bench`: runs all measures on a private PostgreSQL with default settings. It stores the lines under
//! `target/bench`, and generates PERFORMANCE.md's tables and the charts in `docs/bench` from them.

mod charts;
mod line;
mod measure;
mod number;
mod page;
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;

#[derive(Args)]
pub(crate) struct Options {
    /// What to measure, such as `drain`, as `jobs-bench --help` names it; or `peers`, for the comparison with other job
    /// queues [default: everything]
    measures: Vec<String>,
    /// One run, a tenth of the jobs and of the time. It shows that everything works and is not to be quoted: page and
    /// charts go to target/bench/quick
    #[arg(long)]
    quick: bool,
    /// Measure nothing, and write page and charts from these lines. Of several files, later ones replace what earlier
    /// ones say of the same variant
    #[arg(long, value_name = "FILE", conflicts_with_all = ["measures", "quick"])]
    from: Vec<PathBuf>,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let base = root.join("target/bench");
    let (files, out) = if !options.from.is_empty() {
        (options.from.clone(), root.to_path_buf())
    } else if options.quick {
        let file = base.join("quick.jsonl");
        measure::run(root, &options.measures, true, &file)?;
        (vec![file], base.join("quick"))
    } else {
        let file = base.join("results.jsonl");
        measure::run(root, &options.measures, false, &file)?;
        (vec![file], root.to_path_buf())
    };
    let mut lines = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let read =
            line::read(&text).with_context(|| format!("{} is not what jobs-bench --json wrote", file.display()))?;
        line::merge(&mut lines, read);
    }
    page::write(root, &out, &lines)
}
