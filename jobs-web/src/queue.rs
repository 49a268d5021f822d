//! What several pages say of a queue.

use diesel_jobs_core::storage::QueueOverview;

/// The states of the jobs that are due later, as a filter names them.
pub(crate) const LATER: &str = "scheduled,retrying";

/// Whether jobs of it wait or run.
pub(crate) fn has_jobs(queue: &QueueOverview) -> bool {
    queue.jobs.waiting().jobs + queue.jobs.running > 0
}
