//! The measures, one per file.

mod drain;

use anyhow::{Context as _, Result};

use crate::bench::Bench;
use crate::cli::Measure;

/// Runs one measure, or all.
pub(crate) async fn run(bench: &Bench, measure: Measure) -> Result<()> {
    const EACH: [Measure; 1] = [Measure::Drain];
    let chosen = [measure];
    for measure in if measure == Measure::All { &EACH[..] } else { &chosen[..] } {
        let done = match measure {
            Measure::All => Ok(()),
            Measure::Drain => drain::measure(bench).await,
        };
        done.with_context(|| format!("measuring {measure:?}"))?;
    }
    Ok(())
}
