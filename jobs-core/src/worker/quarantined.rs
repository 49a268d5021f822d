//! Quarantined jobs: jobs that one more crash may discard. When a job kills its process, the crash is counted on all
//! jobs of that worker. So a quarantined job runs alone in its process, where only its own crash is counted on it. At
//! most one in four workers (but at least one) runs a quarantined job at a time, so that the others run other jobs.

use std::sync::Arc;
use std::time::Duration;

use super::report::Reporter;
use super::runner;
use super::shared::Shared;
use crate::outcome::Transition;
use crate::storage::{Claim, StorageResult};
use crate::telemetry;

/// How long the worker waits for the end of its other jobs, and then for the end of the quarantined job. After that it
/// claims other jobs again. This is safe: a crash that a job shares with other jobs does not discard it for its
/// crashes, and each crash consumes an attempt.
const ALONE: Duration = Duration::from_secs(60);

/// Claims a quarantined job for which there is a slot, waits for the end of all other jobs of this process, and starts
/// it. Both waits end after [`ALONE`]. Returns `false` if no such job could be claimed.
pub(super) async fn run_one(shared: &Arc<Shared>, reporter: &Reporter, claim: &Claim) -> StorageResult<bool> {
    let claimed = {
        let _claiming = shared.claiming.read().await;
        let job = shared.storage.claim(&claim.for_quarantined()).await?;
        shared.counters.count_claimed(job.len());
        shared.take(job)
    };
    let Some(job) = claimed.first().cloned() else { return Ok(false) };
    // Prefetched jobs are released, so that they need not wait for the quarantined job.
    for prefetched in shared.queues.overdue(Duration::ZERO) {
        shared.health.ticking(reporter.report(prefetched, Transition::Release)).await;
    }
    let lease = job.lease();
    let no_other_held = shared.leases.no_other_held(&lease);
    shared.health.ticking(wait_without_claims(shared, reporter, no_other_held)).await;
    // If the worker drains meanwhile, it releases this job with all other prefetched jobs.
    for not_served in shared.queues.push(claimed) {
        shared.health.ticking(reporter.report(not_served, Transition::Release)).await;
    }
    if !shared.phases.quiet().is_cancelled() {
        telemetry::quarantined_job_starts(job.claimed());
        runner::start(shared, reporter);
        let not_held = shared.leases.not_held(&lease);
        shared.health.ticking(wait_without_claims(shared, reporter, not_held)).await;
    }
    Ok(true)
}

/// Waits for this future, [`ALONE`] at most, and claims nothing meanwhile.
async fn wait_without_claims(shared: &Arc<Shared>, reporter: &Reporter, event: impl Future<Output = ()>) {
    let mut event = std::pin::pin!(event);
    let mut over = std::pin::pin!(tokio::time::sleep(ALONE));
    loop {
        tokio::select! {
            () = &mut event => return,
            () = &mut over => return,
            () = shared.phases.quiet().cancelled() => return,
            // A lease may end before its slot is free.
            () = shared.queues.capacity_changed() => runner::start(shared, reporter),
        }
    }
}
