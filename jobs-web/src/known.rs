//! The names of queues and kinds, for fields that ask for one.

use std::collections::BTreeSet;

use diesel_jobs_core::storage::{Operator, StorageResult};

/// This many names are suggested in a field.
const SUGGESTED: usize = 200;

/// The names that there are. Some are left out if there are very many.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) queues: Vec<String>,
    pub(crate) kinds: Vec<String>,
}

impl Known {
    pub(crate) async fn of(operator: &dyn Operator) -> StorageResult<Self> {
        let (stats, workers) = (operator.stats().await?, operator.workers().await?);
        let of_workers = workers.into_iter().filter(|worker| worker.alive).flat_map(|worker| worker.kinds);
        let kinds = stats.kinds.iter().map(|kind| kind.kind.clone()).chain(of_workers.flatten());
        let queues = stats.queues.into_iter().map(|queue| queue.queue);
        let some = |names: BTreeSet<String>| names.into_iter().take(SUGGESTED).collect();
        Ok(Self { queues: some(queues.collect()), kinds: some(kinds.collect()) })
    }
}
