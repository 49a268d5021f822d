//! The pause of a service between two runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::worker::idleness::{Call, Since};
use crate::worker::shared::Shared;

/// Sleeps with jitter, so that workers do not act at the same moments. Returns `false` if the service must stop.
pub(super) async fn pause(span: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(span.mul_f64(rand::random_range(0.8..1.0))) => true,
        () = stop.cancelled() => false,
    }
}

/// What ends the pause of a service while the worker is idle.
#[derive(Clone, Copy)]
pub(super) struct Idle {
    /// Its last run began then.
    pub(super) since: Since,
    /// So many polls since its last run.
    pub(super) polls: u32,
    /// The reasons to run earlier.
    pub(super) calls: &'static [Call],
}

impl Idle {
    /// Waits while the worker is idle, until this ends the pause.
    pub(super) async fn wait(self, shared: &Shared) {
        shared.idleness.wait(self.since, self.polls, self.calls).await;
    }
}

/// The same. If the worker is idle then, it also waits for what `idle` says.
pub(super) async fn idle_pause(shared: &Shared, span: Duration, idle: Idle, stop: &CancellationToken) -> bool {
    pause(span, stop).await
        && tokio::select! {
            () = idle.wait(shared) => true,
            () = stop.cancelled() => false,
        }
}
