//! The pause of a service between two runs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Sleeps with jitter, so that workers do not act at the same moments. Returns `false` if the service must stop.
pub(super) async fn pause(span: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(span.mul_f64(rand::random_range(0.8..1.0))) => true,
        () = stop.cancelled() => false,
    }
}
