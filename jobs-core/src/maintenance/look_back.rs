//! The look back: finds jobs that came back to where the claims of this worker do not look any more.
//!
//! It may take long, changes nothing in the database, and is of no use to a worker that claims no more: so it ends by itself
//! when the worker begins to drain, and no shutdown waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::storage::{Claim, LookedBack, Wanted};
use crate::telemetry::Trouble;
use crate::worker::Shared;

/// Between two, while claims are made,
const BUSY: Duration = Duration::from_secs(1);
/// unless one takes long: it may have one in so many parts of the time,
const SHARE: u32 = 20;
/// and more if the pause would be longer than this.
const LONGEST: Duration = Duration::from_secs(10);
/// After one that was refused.
const REFUSED: Duration = Duration::from_millis(300);
/// Between two of an idle worker: so many polls.
const POLLS: u32 = 2;

pub(super) async fn run(shared: Arc<Shared>) {
    let (trouble, draining) = (Trouble::new("look_back"), shared.phases.draining().clone());
    loop {
        tokio::select! {
            () = shared.claimed.notified() => {}
            () = shared.came_back.notified() => {}
            () = tokio::time::sleep(shared.settings.poll.saturating_mul(POLLS)) => {}
            () = draining.cancelled() => return,
        }
        let began = Instant::now();
        let looked = shared.storage.look_back(&everything(&shared)).await;
        let mut pause = (began.elapsed() * SHARE).clamp(BUSY, LONGEST);
        match looked {
            Ok(LookedBack::Nothing) => {}
            Ok(LookedBack::Found) => shared.wake.notify_one(),
            Ok(LookedBack::Refused) => {
                pause = REFUSED;
                shared.claimed.notify_one();
            }
            Err(problem) => trouble.report(&problem),
        }
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))) => {}
            // They need not wait for the next.
            () = shared.came_back.notified() => shared.claimed.notify_one(),
            () = draining.cancelled() => return,
        }
    }
}

/// All that this worker may claim.
fn everything(shared: &Shared) -> Claim {
    Claim {
        worker: *shared.id.borrow(),
        wanted: shared.settings.queues.keys().map(|queue| Wanted::new(queue, 1)).collect(),
        kinds: shared.registry.kinds().into(),
        insist: false,
        suspect_at: shared.settings.rescue_policy(false).suspect_at(),
    }
}
