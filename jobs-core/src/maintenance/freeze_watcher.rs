//! The freeze watcher: says in the log when the database was frozen or thawed, and has the worker look for work after a thaw.
//! Nothing depends on it: the statements themselves give nothing while the database is frozen.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::installation::Freeze;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

pub(super) async fn run(shared: Arc<Shared>, mut known: Option<Freeze>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("installation");
    while pause(shared.settings.sweep(), &stop).await {
        let frozen = match shared.storage.installation().await {
            Ok(installation) => installation.frozen,
            Err(problem) => {
                warning.report(&problem);
                continue;
            }
        };
        match (&known, &frozen) {
            (before, Some(now)) if before.as_ref() != Some(now) => telemetry::frozen(now),
            (Some(_), None) => {
                telemetry::thawed();
                shared.wake.notify_one();
            }
            _ => {}
        }
        known = frozen;
    }
}
