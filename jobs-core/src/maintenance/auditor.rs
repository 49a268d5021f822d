//! The auditor: compares the leases this process believes to hold with those that stand.
//!
//! - Believed and not standing: an operator cancelled the job, or it was rescued from here by mistake. Its attempt is told
//!   to stop, long before its finish would be refused.
//! - Standing and not believed: the reply to a claim was lost on its way. Nobody works on such a job, and as long as this
//!   worker lives nobody would rescue it. It is given back.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::pause;
use crate::lease::{Lease, WorkerId};
use crate::outcome::{Finish, Transition};
use crate::storage::StorageResult;
use crate::telemetry::{self, Trouble};
use crate::worker::Shared;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("leases");
    while pause(shared.settings.sweep(), &stop).await {
        if let Err(problem) = audit(&shared).await {
            trouble.report(&problem);
        }
    }
}

async fn audit(shared: &Shared) -> StorageResult<()> {
    let worker = *shared.id.borrow();
    // The local look comes first: a lease granted after it must not count as missing.
    let believed = shared.leases.held();
    let standing = standing(shared, worker).await?;
    for lost in believed.iter().filter(|lease| lease.worker == worker && !standing.contains(lease)) {
        shared.leases.lose_one(lost);
    }
    if unbelieved(shared, standing).is_empty() {
        return Ok(());
    }
    // Perhaps their claim is under way. With none under way, what nobody knows nobody will.
    let _no_claim = shared.claiming.lock().await;
    let orphans = unbelieved(shared, self::standing(shared, worker).await?);
    if orphans.is_empty() {
        return Ok(());
    }
    telemetry::strays(worker, orphans.len());
    let release = |lease| Finish { lease, transition: Transition::Release };
    shared.storage.finish(&orphans.into_iter().map(release).collect::<Vec<_>>()).await?;
    shared.wake.notify_one();
    Ok(())
}

async fn standing(shared: &Shared, worker: WorkerId) -> StorageResult<HashSet<Lease>> {
    let leases = shared.storage.leases(worker).await?;
    Ok(leases.into_iter().map(|(job, number)| Lease { job, number, worker }).collect())
}

fn unbelieved(shared: &Shared, standing: HashSet<Lease>) -> Vec<Lease> {
    let believed: HashSet<Lease> = shared.leases.held().into_iter().collect();
    standing.into_iter().filter(|lease| !believed.contains(lease)).collect()
}
