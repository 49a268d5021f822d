//! Quarantined jobs: those that are discarded if they are in one more crash. Whoever shared a worker with a job that kills its
//! process was in all its crashes, too. So a quarantined job runs alone in its process, where it answers for itself only; and in one
//! of four workers at a time, so that the others go on.

use std::sync::Arc;
use std::time::Duration;

use super::report::Reporter;
use super::runner;
use super::shared::Shared;
use crate::outcome::Transition;
use crate::storage::{Claim, StorageResult};
use crate::telemetry;

/// What the worker waits for its other jobs to end, and then for the quarantined job's end, before it goes on as always. Longer
/// handlers cost no more than that; a crash in company discards nobody, and each costs an attempt.
const ALONE: Duration = Duration::from_secs(60);

/// Claims a quarantined job that there is a slot for, lets what else is running here end, and gives it the process. `false`: there was
/// none to be had.
pub(super) async fn run_one(shared: &Arc<Shared>, reporter: &Reporter, claim: &Claim) -> StorageResult<bool> {
    let claimed = {
        let _claiming = shared.claiming.lock().await;
        let job = shared.storage.claim(&claim.for_quarantined()).await?;
        shared.counters.count_claimed(job.len());
        shared.take(job)
    };
    let Some(quarantined) = claimed.first().cloned() else { return Ok(false) };
    // Whoever waits here for a slot need not wait for this.
    for waiting in shared.queues.overdue(Duration::ZERO) {
        reporter.report(waiting, Transition::Release).await;
    }
    alone(shared, reporter, shared.leases.no_other_held(&quarantined.lease())).await;
    // A worker that drains meanwhile gives it back with all that is prefetched.
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

/// Waits for this, and claims nothing meanwhile.
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
