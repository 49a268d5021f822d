//! Operations: does batches of the actions that operators have started on all jobs that match a filter. One worker at a
//! time works on an operation, because a step locks its row.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::crash_point::crash_point;
use crate::storage::{BETWEEN_STEPS, STEP};
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

/// How often a worker asks whether there is an operation.
const EVERY: Duration = Duration::from_secs(5);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("step_operation");
    let mut wait = EVERY;
    while pause(wait, &stop).await {
        crash_point("step_operation");
        wait = match shared.storage.step_operation(None, STEP).await {
            Ok(Some(_)) => BETWEEN_STEPS,
            Ok(None) => EVERY,
            Err(problem) => {
                warning.report(&problem);
                EVERY
            }
        };
    }
}
