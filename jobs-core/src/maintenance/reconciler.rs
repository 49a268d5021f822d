//! The reconciler: compares the leases that this process holds with the valid leases in the database.
//!
//! - Held here, but not valid: an operator cancelled the job, or it was rescued by mistake. Its attempt is asked to
//!   stop, before its finish would be refused. The lease of a job that was committed a moment ago is not valid
//!   either, so the attempt first gets time to notice the commit. A handler that completed its job in its own
//!   transaction may continue.
//! - Valid, but not held here: the reply to a claim was lost. No attempt runs such a job, and while this worker is
//!   alive no worker rescues it. The reconciler releases it. It searches for such leases when a claim failed. It also
//!   searches regularly, because the database may execute a claim after the search, although the worker has given that
//!   claim up.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pause::{Idle, idle_pause, pause};
use crate::crash_point::crash_point;
use crate::job_id::JobId;
use crate::lease::{Lease, WorkerId};
use crate::outcome::Finish;
use crate::storage::{PassOn, StorageResult};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::shared::Shared;

/// If no claim failed, one of this many checks also searches for unknown leases. That is once in two lease times, at
/// least once a minute.
const CHECKS_PER_SEARCH: u32 = 12;
/// An idle worker holds no lease, so nothing is to be checked. Its checks are counted.
const POLLS_OF_CHECK: u32 = 1;
/// How long the reply to a commit may take on a busy machine.
const COMMIT_REPLY_TIME: Duration = Duration::from_millis(500);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let warning = RateLimitedWarning::new("leases");
    let mut checks = 0;
    let mut since = shared.idleness.now();
    let every = shared.settings.maintenance_interval();
    while idle_pause(&shared, every, Idle { since, polls: POLLS_OF_CHECK, calls: &[] }, &stop).await {
        since = shared.idleness.now();
        checks = (checks + 1) % CHECKS_PER_SEARCH;
        let searches = checks == 0;
        if let Err(problem) = reconcile(&shared, searches, &stop).await {
            shared.needs_reconcile.fetch_or(searches, Ordering::AcqRel);
            warning.report(&problem);
        }
    }
}

/// Releases the jobs of a claim whose reply was lost, before the worker deregisters. Otherwise nobody would know them
/// as those of a worker that has stopped.
pub(crate) async fn release_at_end(shared: &Shared) -> StorageResult<()> {
    if !shared.needs_reconcile.load(Ordering::Acquire) {
        return Ok(());
    }
    let worker = *shared.id.borrow();
    release_unknown_leases(shared, worker).await
}

/// Checks the leases that are held here. Then searches for those that are not, if a claim has failed or this check
/// `searches`. A worker that must search is not idle, so this is not noted before.
async fn reconcile(shared: &Shared, searches: bool, stop: &CancellationToken) -> StorageResult<()> {
    let worker = *shared.id.borrow();
    let mut held = shared.leases.held();
    held.retain(|lease| lease.worker == worker);
    if !held.is_empty() {
        let valid = valid_leases(shared, worker, Some(&held)).await?;
        held.retain(|lease| !valid.contains(lease));
        if !held.is_empty() && pause(COMMIT_REPLY_TIME, stop).await {
            let lost = shared.leases.among(&held);
            shared.find_cancelled(&lost.iter().collect::<Vec<_>>()).await;
            // Leases that ended meanwhile are no longer held, so they are not affected.
            held.iter().for_each(|lost| shared.leases.lose_one(lost));
        }
    }
    let searches = searches || shared.needs_reconcile.load(Ordering::Acquire);
    if searches { release_unknown_leases(shared, worker).await } else { Ok(()) }
}

async fn release_unknown_leases(shared: &Shared, worker: WorkerId) -> StorageResult<()> {
    // While no claim is under way, a lease that is unknown here stays unknown.
    let _no_claim = shared.claiming.write().await;
    shared.needs_reconcile.store(false, Ordering::Release);
    // If this fails, it must be tried again.
    release_unknown(shared, worker).await.inspect_err(|_| shared.needs_reconcile.store(true, Ordering::Release))
}

async fn release_unknown(shared: &Shared, worker: WorkerId) -> StorageResult<()> {
    let held: HashSet<Lease> = shared.leases.held().into_iter().collect();
    let valid = valid_leases(shared, worker, None).await?;
    // A lease that ended between the two reads is not among the valid ones, or its finish is already written.
    let unknown: Vec<Lease> = valid.into_iter().filter(|lease| !held.contains(lease)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    crash_point("unknown-leases");
    let releases: Vec<Finish> = unknown.into_iter().map(Finish::release).collect();
    shared.storage.finish(&releases, PassOn::Nothing).await?;
    telemetry::released_unknown_leases(worker, releases.len());
    shared.wake.notify_one();
    shared.rescan_requested.notify_one();
    Ok(())
}

/// The valid leases of this worker: all, or only those in `among`.
async fn valid_leases(shared: &Shared, worker: WorkerId, among: Option<&[Lease]>) -> StorageResult<HashSet<Lease>> {
    let jobs: Option<Vec<JobId>> = among.map(|leases| leases.iter().map(|lease| lease.job).collect());
    let leases = shared.storage.leases(worker, jobs.as_deref()).await?;
    Ok(leases.valid.into_iter().map(|(job, number)| Lease { job, number, worker }).collect())
}
