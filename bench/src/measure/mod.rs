//! The measures, one per file.

mod bulk;
mod drain;
mod enqueue;
mod latency;
mod steady;
mod supply;

use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::bench::Bench;
use crate::cli::Measure;

/// In the order of `all`.
const EACH: [Measure; 5] = [Measure::Enqueue, Measure::Bulk, Measure::Drain, Measure::Latency, Measure::Steady];

/// Runs one measure, or all.
pub(crate) async fn run(bench: &Bench, measure: Measure) -> Result<()> {
    let chosen = [measure];
    for measure in if measure == Measure::All { &EACH[..] } else { &chosen[..] } {
        let done = match measure {
            Measure::All => Ok(()),
            Measure::Enqueue => enqueue::measure(bench).await,
            Measure::Bulk => bulk::measure(bench).await,
            Measure::Drain => drain::measure(bench).await,
            Measure::Latency => latency::measure(bench).await,
            Measure::Steady => steady::measure(bench).await,
        };
        done.with_context(|| format!("measuring {measure:?}"))?;
    }
    Ok(())
}

/// Does something and answers how many milliseconds it took.
async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
