//! The rescuer: frees the jobs of workers that stopped sending heartbeats.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::pause;
use crate::storage::RescuePolicy;
use crate::telemetry::{self, Trouble};
use crate::worker::Shared;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("rescue");
    let policy = RescuePolicy { max_crashes: shared.settings.max_crashes, retention: shared.settings.retention };
    while pause(shared.settings.sweep(), &stop).await {
        // A worker that could not reach the database itself cannot tell the dead from the cut off: after an outage
        // everybody's heartbeat is old, and everybody gets a lease's time to come back.
        if shared.pulse.failed_within(shared.settings.lease) {
            continue;
        }
        match shared.storage.rescue(policy).await {
            Ok(rescued) => {
                telemetry::rescued(&rescued);
                if !rescued.returned.is_empty() {
                    shared.wake.notify_one();
                }
            }
            Err(problem) => trouble.report(&problem),
        }
    }
}
