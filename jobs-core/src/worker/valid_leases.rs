//! Asks the database which leases are valid.

use std::collections::{HashMap, HashSet};

use crate::job_id::JobId;
use crate::lease::{Lease, WorkerId};
use crate::storage::{Storage, StorageResult};

/// Returns those of these leases that are valid. They may belong to several ids of this process: it has a new id after
/// it was declared dead.
pub(super) async fn valid_leases(storage: &dyn Storage, leases: &[Lease]) -> StorageResult<HashSet<Lease>> {
    let mut jobs: HashMap<WorkerId, Vec<JobId>> = HashMap::new();
    for lease in leases {
        jobs.entry(lease.worker).or_default().push(lease.job);
    }
    let mut valid = HashSet::new();
    for (worker, jobs) in jobs {
        let found: HashSet<(JobId, i32)> = storage.leases(worker, Some(&jobs)).await?.valid.into_iter().collect();
        let of_worker = leases.iter().filter(|lease| lease.worker == worker);
        valid.extend(of_worker.filter(|lease| found.contains(&(lease.job, lease.number))));
    }
    Ok(valid)
}
