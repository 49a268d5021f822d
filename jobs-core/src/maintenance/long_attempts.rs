//! Finds attempts that take far longer than attempts of their kind usually do, and logs each of them once.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::telemetry;
use crate::worker::shared::Shared;

const EVERY: Duration = Duration::from_secs(10);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    while pause(EVERY, &stop).await {
        for (ctx, running) in shared.leases.running() {
            if let Some(usual) = shared.usual_durations.is_exceeded(ctx.kind(), running)
                && ctx.mark_long()
            {
                telemetry::long_attempt(&ctx, running, usual);
            }
        }
    }
}
