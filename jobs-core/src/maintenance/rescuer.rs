//! The rescuer: frees the jobs of workers that stopped sending heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::crash_point::crash_point;
use crate::recorder::{Event, RescueOutcome};
use crate::storage::{RescuePolicy, Rescued, Rescuer};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// Orphans are searched for once in this many rounds.
const ORPHANS_EVERY: u64 = 12;

/// A `brief` worker ends before those rounds, so it searches for orphans each time.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken, brief: bool) {
    let warning = RateLimitedWarning::new("rescue");
    let mut left_behind = false;
    for round in 0u64.. {
        if !pause(shared.settings.maintenance_interval(), &stop).await {
            return;
        }
        // A worker that could not reach the database cannot distinguish dead workers from disconnected ones. After an
        // outage all heartbeats are old, so no worker is declared dead for the time of one lease, at most a minute.
        if shared.heartbeat_state.failed_within(shared.settings.no_rescue_after_outage()) {
            continue;
        }
        let Some(beat) = shared.heartbeat_state.newest_with_predecessor() else { continue };
        let age = beat.sent.elapsed() + shared.settings.heartbeat_interval();
        let rescuer = Some(Rescuer { worker: *shared.id.borrow(), beat: beat.at, age });
        let orphans = brief || left_behind || (round + 1).is_multiple_of(ORPHANS_EVERY);
        let policy = RescuePolicy { rescuer, ..shared.settings.rescue_policy(orphans) };
        crash_point("rescue");
        match shared.storage.rescue(policy).await {
            Ok(rescued) => {
                telemetry::rescued(&rescued);
                let Rescued { returned, released, discarded, .. } = &rescued;
                for (jobs, outcome) in [
                    (returned.len(), RescueOutcome::Returned),
                    (released.len(), RescueOutcome::Released),
                    (discarded.len(), RescueOutcome::Discarded),
                ] {
                    if jobs > 0 {
                        shared.settings.recorders.record(|| Event::Rescued { jobs, outcome });
                    }
                }
                shared.counters.count_discarded(discarded.len());
                shared.work.record_crashes(&rescued.attempts);
                left_behind = rescued.left_behind;
                if rescued.held_off {
                    shared.heartbeat_state.failed();
                }
                if !rescued.returned.is_empty() || !rescued.released.is_empty() {
                    crash_point("rescued");
                    shared.wake.notify_one();
                    shared.rescan_requested.notify_one();
                }
                if rescued.quarantined_due {
                    shared.quarantined_due.store(true, Ordering::Release);
                    shared.wake.notify_one();
                }
            }
            Err(problem) => warning.report(&problem),
        }
    }
}
