//! The rescanner: finds stragglers, which are jobs below the scan floors of this worker's claims.
//!
//! A rescan may take long, changes nothing in the database, and is useless to a worker that claims no more. So it ends
//! when the worker claims no more, and no shutdown waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pause::Idle;
use crate::storage::{Claim, RescanReason, Rescanned, Wanted};
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

/// The pause between two rescans while claims are made.
const SHORTEST: Duration = Duration::from_secs(1);
/// The pause before a requested rescan.
const URGENT: Duration = Duration::from_millis(150);
/// The longest pause is this many times as long as the rescan before it, and the shortest 30 times. So routine rescans
/// of up to 200 ms take about 3 % of a processor at most.
const PAUSE_FACTOR: u32 = 50;
const URGENT_PAUSE_FACTOR: u32 = 10;
/// But no pause is longer than this.
const LONGEST: Duration = Duration::from_secs(10);
/// The pause after a rescan that was refused.
const REFUSED: Duration = Duration::from_millis(300);
/// A worker that was refused for this long bypasses the limit, because another session may hold the lock for ever.
const BYPASS_AFTER: Duration = Duration::from_secs(10);
/// The pause between two rescans of a worker without jobs, in polls.
const POLLS: u32 = 2;

pub(super) async fn run(shared: Arc<Shared>) {
    let (warning, quiet) = (RateLimitedWarning::new("rescan"), shared.phases.quiet().clone());
    let mut refused_since: Option<Instant> = None;
    let mut requested = false;
    // Polls are up to a fifth more frequent than the poll interval says.
    let unasked = shared.settings.poll.saturating_mul(POLLS).mul_f64(0.75);
    let mut since = shared.idleness.now();
    loop {
        tokio::select! {
            () = std::future::ready(()), if requested => {}
            () = shared.routine_rescan_due.notified() => {}
            () = shared.rescan_requested.notified() => requested = true,
            () = async {
                tokio::time::sleep(unasked).await;
                Idle { since, polls: POLLS, calls: &[] }.wait(&shared).await;
            } => {}
            () = quiet.cancelled() => return,
        }
        let reason = if requested { RescanReason::Requested } else { RescanReason::Routine };
        since = shared.idleness.now();
        let began = Instant::now();
        let bypass_limit = refused_since.is_some_and(|since| since.elapsed() > BYPASS_AFTER);
        let rescanned = shared.storage.rescan(&claim_for_all(&shared, bypass_limit), reason).await;
        let took = began.elapsed();
        let mut pause = (took * PAUSE_FACTOR).clamp(SHORTEST, LONGEST);
        let mut urgent = (took * URGENT_PAUSE_FACTOR).clamp(URGENT, LONGEST);
        if !matches!(rescanned, Ok(Rescanned::Refused)) {
            (refused_since, requested) = (None, false);
        }
        match rescanned {
            Ok(Rescanned::Nothing) => {}
            Ok(Rescanned::Found) => shared.wake.notify_one(),
            Ok(Rescanned::Refused) => {
                refused_since.get_or_insert(began);
                (pause, urgent) = (REFUSED, URGENT);
                shared.routine_rescan_due.notify_one();
            }
            Err(problem) => warning.report(&problem),
        }
        tokio::select! {
            () = tokio::time::sleep(urgent) => {}
            () = quiet.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(urgent).mul_f64(rand::random_range(0.5..1.0))) => {}
            // A requested rescan does not wait for the end of the regular pause.
            () = shared.rescan_requested.notified() => requested = true,
            () = quiet.cancelled() => return,
        }
    }
}

/// A claim for all queues and kinds of this worker.
fn claim_for_all(shared: &Shared, bypass_limit: bool) -> Claim {
    let wanted = shared.queues.names().into_iter().map(|queue| Wanted::new(queue, 1)).collect();
    let quarantined_at = shared.settings.rescue_policy(false).quarantined_at();
    Claim { bypass_limit, quarantined_at, ..Claim::new(*shared.id.borrow(), wanted, shared.live.kinds()) }
}
