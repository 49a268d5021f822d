//! The look back: finds jobs that came back to where the claims of this worker do not look any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::pause;
use crate::storage::{Claim, Wanted};
use crate::telemetry::Trouble;
use crate::worker::Shared;

/// Between two, while claims are made,
const BUSY: Duration = Duration::from_secs(1);
/// unless one takes long: it may have one in so many parts of the time.
const SHARE: u32 = 20;
/// Between two of an idle worker: so many polls.
const POLLS: u32 = 3;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("look_back");
    loop {
        tokio::select! {
            () = shared.claimed.notified() => {}
            () = tokio::time::sleep(shared.settings.poll * POLLS) => {}
            () = stop.cancelled() => return,
        }
        let began = Instant::now();
        once(&shared, &trouble).await;
        if !pause(BUSY.max(began.elapsed() * SHARE), &stop).await {
            return;
        }
    }
}

/// Wakes the fetcher if there is something.
pub(super) async fn once(shared: &Shared, trouble: &Trouble) {
    let claim = Claim {
        worker: *shared.id.borrow(),
        wanted: shared.settings.queues.keys().map(|queue| Wanted::new(queue, 1)).collect(),
        kinds: shared.registry.kinds().into(),
        insist: false,
        suspect_at: shared.settings.rescue_policy(false).suspect_at(),
    };
    match shared.storage.look_back(&claim).await {
        Ok(true) => shared.wake.notify_one(),
        Ok(false) => {}
        Err(problem) => trouble.report(&problem),
    }
}
