//! The pruner: deletes finished jobs whose time has come, in bounded batches.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause;
use crate::crash_point::crash_point;
use crate::telemetry::{self, Trouble};
use crate::worker::Shared;

const EVERY: Duration = Duration::from_secs(60);
const BATCH: usize = 1000;
const BETWEEN_BATCHES: Duration = Duration::from_millis(50);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("prune");
    while pause(EVERY, &stop).await {
        loop {
            crash_point("prune");
            match shared.storage.prune(BATCH).await {
                Ok(0) => break,
                Ok(jobs) => {
                    telemetry::pruned(jobs);
                    if jobs < BATCH || !pause(BETWEEN_BATCHES, &stop).await {
                        break;
                    }
                }
                Err(problem) => {
                    trouble.report(&problem);
                    break;
                }
            }
        }
    }
}
