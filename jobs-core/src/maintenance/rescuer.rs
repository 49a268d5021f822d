//! The rescuer: frees the jobs of workers that stopped sending heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::pause;
use crate::crash_point::crash_point;
use crate::telemetry::{self, Trouble};
use crate::worker::Shared;

/// In how many rounds orphans are looked for once.
const ORPHANS_EVERY: u64 = 12;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("rescue");
    for round in 0u64.. {
        if !pause(shared.settings.sweep(), &stop).await {
            return;
        }
        // A worker that could not reach the database itself cannot tell the dead from the cut off: after an outage
        // everybody's heartbeat is old, and everybody gets a lease's time to come back.
        if shared.pulse.failed_within(shared.settings.lease) {
            continue;
        }
        let policy = shared.settings.rescue_policy((round + 1).is_multiple_of(ORPHANS_EVERY));
        crash_point("rescue");
        match shared.storage.rescue(policy).await {
            Ok(rescued) => {
                telemetry::rescued(&rescued);
                if !rescued.returned.is_empty() {
                    crash_point("rescued");
                    shared.wake.notify_one();
                    shared.came_back.notify_one();
                }
                if rescued.suspects {
                    shared.suspects.store(true, Ordering::Release);
                    shared.wake.notify_one();
                }
            }
            Err(problem) => trouble.report(&problem),
        }
    }
}
