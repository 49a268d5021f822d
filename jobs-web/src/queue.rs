//! What several pages say of a queue.

use diesel_jobs_core::storage::QueueOverview;

use crate::format;

/// The states of the jobs that are due later, as a filter names them.
pub(crate) const LATER: &str = "scheduled,retrying";

/// Whether jobs of it wait or run.
pub(crate) fn has_jobs(queue: &QueueOverview) -> bool {
    queue.jobs.waiting().jobs + queue.jobs.running > 0
}

/// The states in which its jobs are, for a link to them: those of the first number that is not zero.
pub(crate) fn states(queue: &QueueOverview) -> &'static str {
    let jobs = &queue.jobs;
    let numbers = [
        (jobs.available.jobs, "available"),
        (jobs.running, "running"),
        (jobs.held.jobs, "held"),
        (jobs.later.jobs, LATER),
    ];
    numbers.into_iter().find(|(jobs, _)| *jobs > 0).map_or("", |(_, states)| states)
}

/// How long its oldest due job has waited.
pub(crate) fn oldest(queue: &QueueOverview) -> String {
    queue.jobs.oldest_wait_seconds.map_or_else(|| "–".to_owned(), format::seconds)
}
