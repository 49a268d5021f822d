//! `sqlite`: enqueue, bulk, drain and latency on SQLite, with a file in a temporary directory.

mod bulk;
mod drain;
mod enqueue;
mod file;
mod latency;

use anyhow::Result;
use serde_json::Value;

use crate::bench::Bench;
use crate::report::{Line, Runs};
use file::File;

pub(crate) async fn measure(bench: &Bench) -> Result<()> {
    let mut lines = Vec::new();
    enqueue::measure(bench, &mut lines).await?;
    bulk::measure(bench, &mut lines).await?;
    drain::measure(bench, &mut lines).await?;
    latency::measure(bench, &mut lines).await?;
    bench.finish("sqlite: a file in a temporary directory", &lines);
    Ok(())
}

/// Reports a line of this measure, with SQLite's settings.
fn report(bench: &Bench, lines: &mut Vec<Line>, mut line: Line, runs: &Runs) -> Result<()> {
    let File { settings, .. } = File::create()?;
    line.settings.extend(settings.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))));
    bench.report(lines, line.with(runs))
}
