//! The rescanner: finds jobs that came to where the claims of this worker do not look any more.
//!
//! A rescan may take long, changes nothing in the database, and is of no use to a worker that claims no more: so it ends by itself
//! when the worker begins to drain, and no shutdown waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::storage::{Claim, RescanReason, Rescanned, Wanted};
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

/// Between two, while claims are made,
const BUSY: Duration = Duration::from_secs(1);
/// or where jobs are known to have come back, or a hint led to nothing;
const URGENT: Duration = Duration::from_millis(150);
/// unless one takes long: it may have one in so many parts of the time,
const SHARE: u32 = 25;
const URGENT_SHARE: u32 = 10;
/// and more if the pause would be longer than this.
const LONGEST: Duration = Duration::from_secs(10);
/// After one that was refused.
const REFUSED: Duration = Duration::from_millis(300);
/// Whoever is refused for so long does not ask any more: somebody else may hold the lock for ever.
const INSIST_AFTER: Duration = Duration::from_secs(10);
/// Between two of an idle worker: so many polls.
const POLLS: u32 = 2;

pub(super) async fn run(shared: Arc<Shared>) {
    let (warning, draining) = (RateLimitedWarning::new("rescan"), shared.phases.draining().clone());
    let mut refused_since: Option<Instant> = None;
    let mut came_back = false;
    loop {
        tokio::select! {
            () = std::future::ready(()), if came_back => {}
            () = shared.claimed.notified() => {}
            () = shared.came_back.notified() => came_back = true,
            () = tokio::time::sleep(shared.settings.poll.saturating_mul(POLLS)) => {}
            () = draining.cancelled() => return,
        }
        let reason = if came_back { RescanReason::CameBack } else { RescanReason::Routine };
        let began = Instant::now();
        let bypass_limit = refused_since.is_some_and(|since| since.elapsed() > INSIST_AFTER);
        let rescanned = shared.storage.rescan(&everything(&shared, bypass_limit), reason).await;
        let took = began.elapsed();
        let mut pause = (took * SHARE).clamp(BUSY, LONGEST);
        let mut urgent = (took * URGENT_SHARE).clamp(URGENT, LONGEST);
        if !matches!(rescanned, Ok(Rescanned::Refused)) {
            (refused_since, came_back) = (None, false);
        }
        match rescanned {
            Ok(Rescanned::Nothing) => {}
            Ok(Rescanned::Found) => shared.wake.notify_one(),
            Ok(Rescanned::Refused) => {
                refused_since.get_or_insert(began);
                (pause, urgent) = (REFUSED, URGENT);
                shared.claimed.notify_one();
            }
            Err(problem) => warning.report(&problem),
        }
        tokio::select! {
            () = tokio::time::sleep(urgent) => {}
            () = draining.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(urgent).mul_f64(rand::random_range(0.5..1.0))) => {}
            // They need not wait for the next.
            () = shared.came_back.notified() => came_back = true,
            () = draining.cancelled() => return,
        }
    }
}

/// All that this worker may claim.
fn everything(shared: &Shared, bypass_limit: bool) -> Claim {
    let wanted = shared.settings.queues.keys().map(|queue| Wanted::new(queue.as_str(), 1)).collect();
    let quarantined_at = shared.settings.rescue_policy(false).quarantined_at();
    Claim { bypass_limit, quarantined_at, ..Claim::new(*shared.id.borrow(), wanted, shared.registry.kinds()) }
}
