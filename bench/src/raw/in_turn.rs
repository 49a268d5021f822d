//! Claims a batch and finishes it, then the next one: the most that a limit of as many jobs as the batch has could
//! allow.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::claim::Claimer;
use super::finish::Finisher;

/// Returns how long these jobs take.
pub(crate) async fn in_turn(url: &str, batch: usize, jobs: u64) -> Result<Duration> {
    let (mut claimer, finisher) = (Claimer::connect(url, batch).await?, Finisher::connect(url, true).await?);
    let (begun, mut finished) = (Instant::now(), 0);
    while finished < jobs {
        let ids = claimer.claim().await?;
        ensure!(!ids.is_empty(), "{finished} of {jobs} jobs were found");
        finished += finisher.finish(&ids).await?;
    }
    Ok(begun.elapsed())
}
