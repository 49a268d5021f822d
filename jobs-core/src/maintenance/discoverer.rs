//! The discoverer: finds the queues that fit the patterns of this worker. A worker without patterns has none.
//!
//! A notification for a queue that the worker does not know wakes the fetcher, whose claim brings no job. Then the
//! fetcher asks for a search at once. A worker that is busy gets no notifications, so it also searches regularly. An
//! idle worker searches after each poll, because a notification may be lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pause::Idle;
use crate::storage::{StorageResult, Waiting};
use crate::telemetry::RateLimitedWarning;
use crate::worker::shared::Shared;

/// The pause between two searches, unless the poll interval is shorter.
const EVERY: Duration = Duration::from_secs(1);
/// The pause before a search that the fetcher asks for. On SQLite each commit of another process may be a reason.
const URGENT: Duration = Duration::from_millis(20);
/// The pause is at least this many times as long as the search before it,
const PAUSE_FACTOR: u32 = 20;
/// but no longer than this.
const LONGEST: Duration = Duration::from_secs(10);

pub(super) async fn run(shared: Arc<Shared>) {
    if !shared.queues.have_patterns() {
        return;
    }
    let (warning, quiet) = (RateLimitedWarning::new("waiting_queues"), shared.phases.quiet().clone());
    let every = EVERY.min(shared.settings.poll).max(URGENT);
    let mut took = Duration::ZERO;
    let mut since = shared.idleness.now();
    loop {
        let shortest = (took * PAUSE_FACTOR).clamp(URGENT, LONGEST);
        tokio::select! {
            () = tokio::time::sleep(shortest) => {}
            () = quiet.cancelled() => return,
        }
        tokio::select! {
            () = async {
                tokio::time::sleep(every.saturating_sub(shortest)).await;
                Idle { since, polls: 1, calls: &[] }.wait(&shared).await;
            } => {}
            () = shared.discovery_requested.notified() => {}
            () = quiet.cancelled() => return,
        }
        since = shared.idleness.now();
        let began = Instant::now();
        took = Duration::ZERO;
        match find(&shared, Waiting::Available { within: Duration::MAX }).await {
            Ok(true) => {
                // Claims of a queue begin near the present, so only a rescan finds the jobs that have waited for long.
                shared.rescan_requested.notify_one();
                shared.wake.notify_one();
            }
            Ok(false) => {}
            Err(problem) => {
                // How long it took says nothing about the search.
                warning.report(&problem);
                continue;
            }
        }
        took = began.elapsed();
    }
}

/// Adds the queues in which such jobs wait to those of the worker. Returns whether one of them is new.
pub(crate) async fn find(shared: &Shared, waiting: Waiting) -> StorageResult<bool> {
    if !shared.queues.have_patterns() {
        return Ok(false);
    }
    let waiting = shared.storage.waiting_queues(waiting).await?;
    Ok(shared.queues.found(&waiting, Instant::now()))
}
