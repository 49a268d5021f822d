//! The freeze watcher: logs when the database was frozen or thawed, and makes the worker claim after a thaw. Each
//! heartbeat returns whether the database is frozen. Nothing depends on this service: while the database is frozen, the
//! statements themselves return no jobs.

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
                // A freeze and a thaw between two heartbeats are not worth a log entry.
                if known.take().is_some() {
                    telemetry::thawed();
                    shared.wake.notify_one();
                }
            }
            Err(problem) => warning.report(&problem),
        }
        // The next heartbeat shows whether the state has changed.
        tokio::select! {
            _ = frozen.changed() => {}
            () = tokio::time::sleep(shared.settings.heartbeat_interval()) => {}
            () = stop.cancelled() => return,
        }
    }
}
