//! The auditor: compares the leases this process believes to hold with those that stand. A job that an operator
//! cancelled, or that was rescued from here by mistake, is told to stop long before its finish would be refused.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::pause;
use crate::telemetry::Trouble;
use crate::worker::Shared;

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let trouble = Trouble::new("leases");
    while pause(shared.settings.sweep(), &stop).await {
        // The local look comes first: a lease granted after it must not count as missing.
        let believed = shared.leases.held();
        if believed.is_empty() {
            continue;
        }
        let id = *shared.id.borrow();
        match shared.storage.leases(id).await {
            Ok(standing) => {
                let standing: HashSet<_> = standing.into_iter().collect();
                let ours = believed.iter().filter(|lease| lease.worker == id);
                for lost in ours.filter(|lease| !standing.contains(&(lease.job, lease.number))) {
                    shared.leases.lose_one(lost);
                }
            }
            Err(problem) => trouble.report(&problem),
        }
    }
}
