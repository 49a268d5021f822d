//! Stores the progress that handlers report: the newest report of each job, at most once a second.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("store_progress");
    let mut goes_on = true;
    while goes_on {
        tokio::select! {
            () = shared.reports.added() => {}
            () = stop.cancelled() => goes_on = false,
        }
        let reports = shared.reports.take();
        if !reports.is_empty()
            && let Err(problem) = shared.storage.store_progress(&reports).await
        {
            // These reports are lost. The next ones of the same jobs replace them anyway.
            warning.report(&problem);
        }
        goes_on = goes_on && (pause(EVERY, &stop).await || !shared.reports.is_empty());
    }
}
