//! Quarantined jobs: jobs that one more crash discards. When a job kills its process, the crash is counted for all jobs
//! of that worker. So a quarantined job runs alone in its process, where a crash can only be its own. At most one in
//! four workers runs a quarantined job at a time, so that the others go on.

use std::sync::Arc;
use std::time::Duration;

use super::report::Reporter;
use super::runner;
use super::shared::Shared;
use crate::outcome::Transition;
use crate::storage::{Claim, StorageResult};
use crate::telemetry;

/// How long the worker waits for its other jobs to end, and then for the quarantined job to end. After that it goes on
/// as usual. Longer handlers cause no other harm: a crash with other jobs present discards no job, and each crash
/// consumes an attempt.
const ALONE: Duration = Duration::from_secs(60);

/// Claims a quarantined job for which there is a slot, waits until all other jobs here have ended, and runs it alone.
/// Returns `false` if no such job could be claimed.
pub(super) async fn run_one(shared: &Arc<Shared>, reporter: &Reporter, claim: &Claim) -> StorageResult<bool> {
    let claimed = {
        let _claiming = shared.claiming.lock().await;
        let job = shared.storage.claim(&claim.for_quarantined()).await?;
        shared.counters.count_claimed(job.len());
        shared.take(job)
    };
    let Some(quarantined) = claimed.first().cloned() else { return Ok(false) };
    // Prefetched jobs are given back, so that they need not wait for the quarantined job.
    for waiting in shared.queues.overdue(Duration::ZERO) {
        reporter.report(waiting, Transition::Release).await;
    }
    alone(shared, reporter, shared.leases.no_other_held(&quarantined.lease())).await;
    // If the worker drains meanwhile, it gives this job back with all other prefetched jobs.
    for stranger in shared.queues.push(claimed) {
        reporter.report(stranger, Transition::Release).await;
    }
    if !shared.phases.draining().is_cancelled() {
        telemetry::quarantined(quarantined.claimed());
        runner::start(shared, reporter);
        alone(shared, reporter, shared.leases.not_held(&quarantined.lease())).await;
    }
    Ok(true)
}

/// Waits for this future, and claims nothing meanwhile.
async fn alone(shared: &Arc<Shared>, reporter: &Reporter, at_last: impl Future<Output = ()>) {
    let mut at_last = std::pin::pin!(at_last);
    let mut over = std::pin::pin!(tokio::time::sleep(ALONE));
    loop {
        tokio::select! {
            () = &mut at_last => return,
            () = &mut over => return,
            () = shared.phases.draining().cancelled() => return,
            // A lease may end before its slot is free.
            () = shared.queues.capacity_changed() => runner::start(shared, reporter),
        }
    }
}
