//! The pruner: deletes finished jobs whose retention is over, in bounded batches.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::crash_point::crash_point;
use crate::recorder::Event;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

const EVERY: Duration = Duration::from_secs(60);
/// The first run comes sooner, because workers that are replaced every minute would otherwise never prune.
const FIRST: Duration = Duration::from_secs(5);
const BATCH: usize = 1000;
const BETWEEN_BATCHES: Duration = Duration::from_millis(50);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("prune");
    let mut wait = FIRST;
    while pause(wait, &stop).await {
        wait = EVERY;
        loop {
            crash_point("prune");
            let pruned = shared.storage.prune(BATCH).await;
            crash_point("pruned");
            match pruned {
                Ok(0) => break,
                Ok(jobs) => {
                    telemetry::pruned(jobs);
                    shared.settings.recorders.record(|| Event::Pruned { jobs });
                    if jobs < BATCH || !pause(BETWEEN_BATCHES, &stop).await {
                        break;
                    }
                }
                Err(problem) => {
                    warning.report(&problem);
                    break;
                }
            }
        }
    }
}
