//! The freeze watcher: says in the log when the database was frozen or thawed, and has the worker look for work after a thaw. Each
//! heartbeat tells whether it is frozen. Nothing depends on it: the statements themselves give nothing while the database is frozen.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::installation::Freeze;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

pub(super) async fn run(shared: Arc<Shared>, mut known: Option<Freeze>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("check_schema");
    let mut frozen = shared.frozen.subscribe();
    loop {
        tokio::select! {
            is_frozen = frozen.wait_for(|frozen| *frozen != known.is_some()) => if is_frozen.is_err() { return },
            () = stop.cancelled() => return,
        }
        match shared.storage.check_schema().await.map(|installation| installation.frozen) {
            Ok(Some(now)) if known.as_ref() != Some(&now) => {
                telemetry::frozen(&now);
                known = Some(now);
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                // Frozen and thawed between two heartbeats is nothing to speak of.
                if known.take().is_some() {
                    telemetry::thawed();
                    shared.wake.notify_one();
                }
            }
            Err(problem) => warning.report(&problem),
        }
        // The next heartbeat says whether that has changed.
        tokio::select! {
            _ = frozen.changed() => {}
            () = tokio::time::sleep(shared.settings.beat()) => {}
            () = stop.cancelled() => return,
        }
    }
}
