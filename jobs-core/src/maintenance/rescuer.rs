//! The rescuer: frees the jobs of workers that stopped sending heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::crash_point::crash_point;
use crate::storage::{RescuePolicy, Rescuer};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// Orphans are searched for once in this many rounds.
const ORPHANS_EVERY: u64 = 12;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("rescue");
    let mut left_behind = false;
    for round in 0u64.. {
        if !pause(shared.settings.sweep(), &stop).await {
            return;
        }
        // A worker that could not reach the database cannot distinguish dead workers from disconnected ones. After an
        // outage all heartbeats are old, so each worker gets the time of one lease, at most a minute, to come back.
        if shared.pulse.failed_within(shared.settings.patience()) {
            continue;
        }
        let Some(beat) = shared.pulse.steady() else { continue };
        let age = beat.sent.elapsed() + shared.settings.beat();
        let rescuer = Some(Rescuer { worker: *shared.id.borrow(), beat: beat.at, age });
        let orphans = left_behind || (round + 1).is_multiple_of(ORPHANS_EVERY);
        let policy = RescuePolicy { rescuer, ..shared.settings.rescue_policy(orphans) };
        crash_point("rescue");
        match shared.storage.rescue(policy).await {
            Ok(rescued) => {
                telemetry::rescued(&rescued);
                left_behind = rescued.left_behind;
                if rescued.held_off {
                    shared.pulse.failed();
                }
                if !rescued.returned.is_empty() {
                    crash_point("rescued");
                    shared.wake.notify_one();
                    shared.came_back.notify_one();
                }
                if rescued.quarantined {
                    shared.quarantined.store(true, Ordering::Release);
                    shared.wake.notify_one();
                }
            }
            Err(problem) => warning.report(&problem),
        }
    }
}
