//! The measures, one per file.

mod backlog;
mod bulk;
mod contention;
mod drain;
mod each;
mod enqueue;
mod flow;
mod homemade;
mod idle;
mod kit;
mod latency;
mod memory;
mod neighbour;
mod operating;
mod proc;
mod snapshot;
mod sqlite;
mod steady;
mod supply;

use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::bench::Bench;
use crate::cli::Measure;

/// The measures of `all`, in this order. The others do not compare with raw statements; they take as long as all of
/// these together.
const EACH: [Measure; 13] = [
    Measure::Enqueue,
    Measure::Bulk,
    Measure::Each,
    Measure::Drain,
    Measure::Latency,
    Measure::Backlog,
    Measure::Snapshot,
    Measure::Contention,
    Measure::Steady,
    Measure::Idle,
    Measure::Memory,
    Measure::Sqlite,
    Measure::Kit,
];

/// Runs one measure, or all.
pub(crate) async fn run(bench: &Bench, measure: Measure) -> Result<()> {
    let chosen = [measure];
    let begun = Instant::now();
    for measure in if measure == Measure::All { &EACH[..] } else { &chosen[..] } {
        bench.note(&format!("== {measure:?}, {:.1} min after the start", begun.elapsed().as_secs_f64() / 60.0));
        let done = match measure {
            Measure::All => Ok(()),
            Measure::Enqueue => enqueue::measure(bench).await,
            Measure::Bulk => bulk::measure(bench).await,
            Measure::Each => each::measure(bench).await,
            Measure::Kit => kit::measure(bench).await,
            Measure::Drain => drain::measure(bench).await,
            Measure::Latency => latency::measure(bench).await,
            Measure::Backlog => backlog::measure(bench).await,
            Measure::Snapshot => snapshot::measure(bench).await,
            Measure::Contention => contention::measure(bench).await,
            Measure::Steady => steady::measure(bench).await,
            Measure::Idle => idle::measure(bench).await,
            Measure::Memory => memory::measure(bench).await,
            Measure::Sqlite => sqlite::measure(bench).await,
            Measure::Homemade => homemade::measure(bench).await,
            Measure::Neighbour => neighbour::measure(bench).await,
            Measure::Flow => flow::measure(bench).await,
            Measure::Operating => operating::measure(bench).await,
        };
        done.with_context(|| format!("measuring {measure:?}"))?;
    }
    Ok(())
}

/// Returns how many milliseconds `work` took.
async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
