//! The sampler: counts all jobs by queue, kind and state, for everyone who wants to know how many there are. One worker
//! at a time counts, and all rest afterwards for a hundred times as long as it took.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::storage::Sampling;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// The first count comes soon after the start, because the first one of all may be long ago.
const FIRST: Duration = Duration::from_secs(2);
/// The bounds of a pause. The upper one lets a worker notice when another one that counted has died.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The pause after an error.
const AFTER_ERROR: Duration = Duration::from_secs(30);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("sample_jobs");
    let mut wait = FIRST;
    // The random part keeps workers that started together from trying together.
    while pause(wait.mul_f64(1.0 + rand::random::<f64>() / 4.0), &stop).await {
        wait = match shared.storage.sample_jobs().await {
            Ok((sampling, next)) => {
                if let Sampling::Rested(reason) = &sampling {
                    telemetry::not_counted(reason);
                }
                next.clamp(BOUNDS.0, BOUNDS.1)
            }
            Err(problem) => {
                warning.report(&problem);
                AFTER_ERROR
            }
        };
    }
}
