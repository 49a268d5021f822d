//! Reads jobs page by page.

use diesel_jobs_core::JobRecord;
use diesel_jobs_core::storage::{JobFilter, MAX_PAGE, Operator, Paging, StorageResult};

/// What [`read`] has found.
pub(super) struct Found {
    /// The jobs, newest first.
    pub(super) jobs: Vec<JobRecord>,
    /// Whether there may be more.
    pub(super) has_more: bool,
}

/// Reads pages from `start` until `start.limit` jobs are found. One page may be short although there are more jobs.
pub(super) async fn read(operator: &dyn Operator, filter: &JobFilter, start: Paging) -> StorageResult<Found> {
    let (mut paging, mut jobs) = (start, Vec::<JobRecord>::new());
    loop {
        paging.limit = (start.limit - jobs.len()).min(MAX_PAGE);
        let page = operator.list(filter, paging).await?;
        if start.ascends() {
            // The jobs of a page are newest first, and this page has the newer ones.
            jobs.splice(0..0, page.jobs);
            paging.after = page.searched_to;
        } else {
            jobs.extend(page.jobs);
            paging.before = page.searched_to;
        }
        if page.searched_to.is_none() || jobs.len() >= start.limit {
            return Ok(Found { jobs, has_more: page.searched_to.is_some() });
        }
    }
}
