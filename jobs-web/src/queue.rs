//! What several pages say of a queue.

use diesel_jobs_core::storage::QueueOverview;

use crate::format;

/// The states of the jobs that are due later, as a filter names them.
pub(crate) const LATER: &str = "scheduled,retrying";

/// Whether jobs of it wait or run.
pub(crate) fn has_jobs(queue: &QueueOverview) -> bool {
    queue.jobs.waiting().jobs + queue.jobs.running > 0
}

/// How long its oldest due job has waited.
pub(crate) fn oldest(queue: &QueueOverview) -> String {
    queue.jobs.oldest_wait_seconds.map_or_else(|| "–".to_owned(), format::seconds)
}
