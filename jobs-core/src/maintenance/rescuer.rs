//! The rescuer: frees the jobs of workers that stopped sending heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::pause::{Idle, idle_pause};
use crate::crash_point::crash_point;
use crate::recorder::{Event, RescueOutcome};
use crate::storage::{RescuePolicy, Rescued, Rescuer};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::idleness::{Call, POLLS};
use crate::worker::shared::Shared;

/// The time between two searches for orphans is this many times as long as between two rounds of a busy worker.
const ORPHANS_EVERY: u32 = 12;

/// So many intervals after the newest heartbeat, the next one is late. A lease has four at least.
const LATE_AFTER: f64 = 2.5;

/// A `brief` worker ends before those rounds, so it searches for orphans each time.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken, brief: bool) {
    let warning = RateLimitedWarning::new("rescue");
    let (mut orphans, mut again) = (false, false);
    let (mut since, mut searched) = (shared.idleness.now(), Instant::now());
    let every = shared.settings.maintenance_interval();
    loop {
        let polls = if again || !shared.settings.rescues_at_polls() { 0 } else { POLLS };
        let idle = Idle { since, polls, calls: &[Call::Rescue] };
        if !idle_pause(&shared, every, idle, &stop).await {
            return;
        }
        // They stay due until a rescue has searched for them.
        orphans |= brief || searched.elapsed() >= every * ORPHANS_EVERY;
        since = shared.idleness.now();
        // A round that does not get to the end is not left to a poll, which may come much later.
        again = true;
        // A worker that could not reach the database cannot distinguish dead workers from disconnected ones. After an
        // outage all heartbeats are old, so no worker is declared dead for the time of one lease, at most a minute.
        if shared.heartbeat_state.failed_within(shared.settings.no_rescue_after_outage()) {
            continue;
        }
        let Some(beat) = shared.heartbeat_state.newest_with_predecessor() else { continue };
        let (since_beat, interval) = (beat.sent.elapsed(), shared.settings.heartbeat_interval());
        // The next heartbeat is under way for longer than usual. What it waits for, such as a lock, may hold up those
        // of all other workers, too.
        if since_beat > interval.mul_f64(LATE_AFTER) && !shared.idleness.is_rest_told() {
            shared.heartbeat_state.failed();
            continue;
        }
        let age = since_beat + interval;
        let rescuer = Some(Rescuer { worker: *shared.id.borrow(), beat: beat.at, age });
        let began = Instant::now();
        let policy = RescuePolicy { rescuer, ..shared.settings.rescue_policy(orphans) };
        crash_point("rescue");
        match shared.storage.rescue(policy).await {
            Ok(rescued) => {
                telemetry::rescued(&rescued);
                telemetry::refused_jobs(&rescued.refused, &warning);
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
                let is_done = !rescued.held_off && !rescued.has_beaten;
                if is_done {
                    searched = if orphans { began } else { searched };
                    orphans = rescued.left_behind;
                }
                again = orphans || !is_done;
                if rescued.held_off {
                    shared.heartbeat_state.failed();
                }
                if !rescued.discarded.is_empty() {
                    // Their permits are free.
                    shared.admission.notify_one();
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
