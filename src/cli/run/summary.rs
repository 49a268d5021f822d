//! The last lines of `run --until-empty`: which due jobs nobody runs, and what the run has done.

use std::time::Duration;

use diesel_jobs_core::health_checks::{Observed, unserved};
use diesel_jobs_core::storage::{Finding, Operator, Program, StorageResult, WaitingJobs};
use diesel_jobs_core::{StorageError, WorkerStats};

/// The run has ended, and may have to end soon.
const LONGEST: Duration = Duration::from_secs(10);

/// Logs which due jobs neither a live worker runs nor the next run of this program.
pub(super) async fn say_unserved(operator: &dyn Operator, program: &Program) {
    let found = tokio::time::timeout(LONGEST, find_unserved(operator, program)).await;
    let late = || format!("counting them took longer than {} s; `worker doctor` names them", LONGEST.as_secs());
    match found.unwrap_or_else(|_| Err(StorageError::Unavailable(late().into()))) {
        Ok(found) => found.iter().for_each(|Finding { what, repair, .. }| {
            tracing::warn!(target: "diesel_jobs", "the run ends although jobs are due: {what}. To repair it: {repair}");
        }),
        Err(problem) => {
            tracing::warn!(target: "diesel_jobs", "the run ends, and could not find out whether there are due jobs that no worker runs: {problem}");
        }
    }
}

async fn find_unserved(operator: &dyn Operator, program: &Program) -> StorageResult<Vec<Finding>> {
    let due = |jobs: WaitingJobs| (jobs.due > 0).then_some(WaitingJobs { jobs: jobs.due, ..jobs });
    let jobs: Vec<WaitingJobs> = operator.waiting().await?.into_iter().filter_map(due).collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (workers, queues, kinds) = (operator.workers().await?, operator.queues().await?, operator.kinds().await?);
    Ok(unserved(&Observed { jobs, workers, queues, kinds, frozen: None }, Some(program)))
}

/// Logs how many attempts have ended in which way.
pub(super) fn say(stats: &WorkerStats) {
    let WorkerStats { completed, retried, snoozed, released, cancelled, discarded, leases_lost, .. } = *stats;
    tracing::info!(
        target: "diesel_jobs",
        { completed, retried, snoozed, released, cancelled, discarded, leases_lost },
        "the run has ended: {}", words(stats)
    );
}

fn words(stats: &WorkerStats) -> String {
    let counts = [
        (stats.completed, "completed"),
        (stats.retried, "to be retried"),
        (stats.snoozed, "snoozed"),
        (stats.released, "released"),
        (stats.cancelled, "cancelled"),
        (stats.discarded, "discarded"),
        (stats.leases_lost, "whose lease was lost"),
    ];
    let some = counts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = some.map(|(number, end)| format!("{number} {end}")).collect();
    if parts.is_empty() { "no job was due".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_happened_is_said() {
        let mut stats = WorkerStats::default();
        assert_eq!(words(&stats), "no job was due");
        (stats.completed, stats.retried, stats.discarded) = (12, 1, 2);
        assert_eq!(words(&stats), "12 completed, 1 to be retried, 2 discarded");
    }
}
