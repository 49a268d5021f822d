//! The reconciler: compares the leases that this process holds with those that stand in the database.
//!
//! - Held here, but not standing: an operator cancelled the job, or it was rescued from here by mistake. Its attempt is
//!   told to stop, long before its finish would be refused. A job that was committed a moment ago does not stand
//!   either, so its attempt first gets time to learn of the commit. A handler that completed its job in its own
//!   transaction may go on.
//! - Standing, but not held here: the reply to a claim was lost. No attempt runs such a job, and while this worker
//!   lives no worker rescues it. The reconciler gives it back. It searches for such leases when a claim failed. It also
//!   searches from time to time without a reason. The database may carry out a claim after the search, although the
//!   worker gave the claim up.

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

/// Between two searches for unknown leases there are this many checks, if no claim failed. That is two leases of time,
/// at most a minute.
const LOOKS: u32 = 12;
/// How long the news of a commit may take to arrive here on a busy machine.
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
            // Leases that ended meanwhile are no longer held, so they are not affected.
            believed.iter().for_each(|lost| shared.leases.lose_one(lost));
        }
    }
    if shared.needs_reconcile.swap(false, Ordering::AcqRel) {
        // If this fails, it must be tried again.
        give_back_strays(shared, worker)
            .await
            .inspect_err(|_| shared.needs_reconcile.store(true, Ordering::Release))?;
    }
    Ok(())
}

async fn give_back_strays(shared: &Shared, worker: WorkerId) -> StorageResult<()> {
    // While no claim is under way, a lease that is unknown here stays unknown.
    let _no_claim = shared.claiming.lock().await;
    let believed: HashSet<Lease> = shared.leases.held().into_iter().collect();
    let standing = standing(shared, worker, None).await?;
    // A lease that ended between the two reads is not among the standing ones, or its finish is already written.
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

/// The leases of this worker that stand: all, or only those in `among`.
async fn standing(shared: &Shared, worker: WorkerId, among: Option<&[Lease]>) -> StorageResult<HashSet<Lease>> {
    let jobs: Option<Vec<JobId>> = among.map(|leases| leases.iter().map(|lease| lease.job).collect());
    let leases = shared.storage.leases(worker, jobs.as_deref()).await?;
    Ok(leases.into_iter().map(|(job, number)| Lease { job, number, worker }).collect())
}
