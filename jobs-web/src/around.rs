//! What the findings of the doctor name, and what else is known of it.

use std::collections::BTreeSet;

use diesel_jobs_core::storage::{Finding, HaltedSequence, Operator, StorageResult};

use crate::sentence::{Named, jobs_in, named_in};

/// How many halted sequences are read. The doctor names fewer.
const HALTED: usize = 100;

/// What the findings name. It is read with them, because a text alone does not tell where a name ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    pub(crate) named: Vec<Named>,
    pub(crate) halted: Vec<HaltedSequence>,
}

impl Around {
    pub(crate) async fn of(operator: &dyn Operator, findings: &[Finding]) -> StorageResult<Self> {
        if findings.is_empty() {
            return Ok(Self::default());
        }
        let (stats, workers) = (operator.stats().await?, operator.workers().await?);
        let halted = operator.halted_sequences(HALTED).await?;
        let queues = stats.queues.into_iter().map(|queue| queue.queue);
        let queues = queues.chain(operator.queues().await?.into_iter().map(|queue| queue.name));
        let kinds = stats.kinds.into_iter().map(|kind| kind.kind);
        let kinds = kinds.chain(operator.kinds().await?.into_iter().map(|kind| kind.name));
        let limits = operator.limits().await?.into_iter().map(|limit| limit.name);
        let limits = limits.chain(operator.limit_settings().await?.into_iter().map(|limit| limit.name));
        let limits = limits.chain(halted.iter().map(|halted| halted.name.clone())).filter(|name| !name.is_empty());
        let workers = workers.into_iter().map(|worker| Named::Worker(worker.process()));
        let jobs = findings.iter().flat_map(|finding| jobs_in(&finding.what));
        let known: BTreeSet<Named> = (queues.map(Named::Queue).chain(kinds.map(Named::Kind)))
            .chain(limits.map(Named::Limit))
            .chain(workers)
            .chain(jobs)
            .collect();
        let is_named =
            |one: &Named| findings.iter().any(|finding| !named_in(&finding.what, std::slice::from_ref(one)).is_empty());
        Ok(Self { named: known.into_iter().filter(is_named).collect(), halted })
    }
}
