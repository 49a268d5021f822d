//! The reconciler: compares the leases this process believes to hold with those that stand.
//!
//! - Believed and not standing: an operator cancelled the job, or it was rescued from here by mistake. Its attempt is told
//!   to stop, long before its finish would be refused. What was committed a moment ago does not stand either: its attempt
//!   gets the time to hear of that. A handler that completed its job in a transaction of its own may work on.
//! - Standing and not believed: the reply to a claim was lost on its way. Nobody works on such a job, and as long as this
//!   worker lives nobody would rescue it. It is given back. That is looked for when a claim failed; and now and then
//!   without a reason, as a claim that was given up here may still be carried out there, after that look.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::pause;
use crate::crash_point::crash_point;
use crate::job::JobId;
use crate::lease::{Lease, WorkerId};
use crate::outcome::{Finish, Transition};
use crate::storage::StorageResult;
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// Looks between two for leases that nobody knows of, when there is no reason for one: two leases apart, at most a minute.
const LOOKS: u32 = 12;
/// Between a commit and the news of it, on a machine that is busy.
const NEWS: Duration = Duration::from_millis(500);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("leases");
    let mut looks = 0;
    while pause(shared.settings.sweep(), &stop).await {
        looks += 1;
        if looks == LOOKS {
            looks = 0;
            shared.needs_reconcile.store(true, Ordering::Release);
        }
        if let Err(problem) = audit(&shared, &stop).await {
            warning.report(&problem);
        }
    }
}

async fn audit(shared: &Shared, stop: &CancellationToken) -> StorageResult<()> {
    let worker = *shared.id.borrow();
    let mut believed = shared.leases.held();
    believed.retain(|lease| lease.worker == worker);
    if !believed.is_empty() {
        let standing = standing(shared, worker, Some(&believed)).await?;
        believed.retain(|lease| !standing.contains(lease));
        if !believed.is_empty() && pause(NEWS, stop).await {
            // Those that ended meanwhile are not held any more.
            believed.iter().for_each(|lost| shared.leases.lose_one(lost));
        }
    }
    if shared.needs_reconcile.swap(false, Ordering::AcqRel) {
        // Should this fail, it is still needed.
        give_back_strays(shared, worker)
            .await
            .inspect_err(|_| shared.needs_reconcile.store(true, Ordering::Release))?;
    }
    Ok(())
}

async fn give_back_strays(shared: &Shared, worker: WorkerId) -> StorageResult<()> {
    // With no claim under way, what nobody knows nobody will.
    let _no_claim = shared.claiming.lock().await;
    let believed: HashSet<Lease> = shared.leases.held().into_iter().collect();
    let standing = standing(shared, worker, None).await?;
    // Leases that ended between the two looks are not among those that stand, or their finish is written already.
    let strays: Vec<Lease> = standing.into_iter().filter(|lease| !believed.contains(lease)).collect();
    if strays.is_empty() {
        return Ok(());
    }
    crash_point("strays");
    telemetry::strays(worker, strays.len());
    let release = |lease| Finish { lease, transition: Transition::Release };
    shared.storage.finish(&strays.into_iter().map(release).collect::<Vec<_>>()).await?;
    shared.wake.notify_one();
    shared.came_back.notify_one();
    Ok(())
}

/// The leases of this worker that stand, all or among these.
async fn standing(shared: &Shared, worker: WorkerId, among: Option<&[Lease]>) -> StorageResult<HashSet<Lease>> {
    let jobs: Option<Vec<JobId>> = among.map(|leases| leases.iter().map(|lease| lease.job).collect());
    let leases = shared.storage.leases(worker, jobs.as_deref()).await?;
    Ok(leases.into_iter().map(|(job, number)| Lease { job, number, worker }).collect())
}
