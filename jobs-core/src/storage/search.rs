//! A search through the pages of a list, until enough jobs are found, and the preview of an action, which searches for
//! some of its jobs.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use super::StorageResult;
use super::action::Action;
use super::filter::JobFilter;
use super::operations::{Preview, filter_for};
use super::operator::Operator;
use super::page::{self, MAX_PAGE, Paging};
use crate::history::OTHER;
use crate::job_id::JobId;
use crate::record::JobRecord;
use crate::storage_error::StorageError;

/// A transaction may commit a job this long after its enqueue, so a count of all jobs may have missed it.
const LATE_COMMIT: TimeDelta = TimeDelta::minutes(1);

/// This many jobs are shown in a preview.
const SAMPLE: usize = 10;
/// A preview searches for so long. It always reads at least one page of the list.
const LONGEST: Duration = Duration::from_secs(1);

/// What a [search](search()) has found.
#[derive(Clone, Default)]
pub struct Found {
    /// The jobs, newest first.
    pub jobs: Vec<JobRecord>,
    /// How many pages of the list were read.
    pub pages: usize,
    /// The id to which the jobs were examined, if there may be more behind it, as [`Page::searched_to`].
    ///
    /// [`Page::searched_to`]: super::Page::searched_to
    pub searched_to: Option<JobId>,
    /// If set, jobs with a lower id were not examined, because there was no job of these kinds at the last count of all
    /// jobs.
    pub not_counted: Option<NotCounted>,
}

/// Why a search has ended early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotCounted {
    /// Jobs with a lower id were not examined.
    pub searched_to: JobId,
    /// How long ago all jobs were counted.
    pub age: Duration,
}

/// The last count of all jobs, in which there is no job of these kinds.
struct Count {
    begun: DateTime<Utc>,
    age: Duration,
}

impl Count {
    async fn without(operator: &dyn Operator, kinds: &[String]) -> StorageResult<Option<Self>> {
        if kinds.is_empty() {
            return Ok(None);
        }
        let Some(sample) = operator.sample().await? else { return Ok(None) };
        // If there are too many kinds, not all of them are counted by themselves.
        let may_exist = sample.kinds.iter().any(|kind| kinds.contains(&kind.kind) || kind.kind == OTHER);
        let (Some(at), Some(age), false) = (sample.at, sample.age_seconds, may_exist) else { return Ok(None) };
        let span = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let took = TimeDelta::from_std(span(sample.took_seconds)).unwrap_or_default();
        Ok(at.checked_sub_signed(took + LATE_COMMIT).map(|begun| Self { begun, age: span(age) }))
    }
}

/// Reads pages from `start` until `start.limit` jobs are found, or until it has searched for as long as `longest`. One
/// page may be short although there are more jobs.
///
/// If the last count found no job of these kinds, only jobs that may be newer than that count are examined. This does
/// not apply if `start.before` is set. So with a wrong name of a kind, it does not search millions of jobs.
pub async fn search(
    operator: &dyn Operator,
    filter: &JobFilter,
    start: Paging,
    longest: Duration,
) -> StorageResult<Found> {
    let began = Instant::now();
    let (mut paging, mut found) = (start, Found::default());
    let is_from_newest = start.before.is_none() && start.after.is_none();
    loop {
        paging.limit = (start.limit - found.jobs.len()).min(MAX_PAGE);
        let page = operator.list(filter, paging).await?;
        found.pages += 1;
        found.searched_to = page.searched_to;
        if start.ascends() {
            // The jobs of a page are newest first, and this page has the newer ones.
            found.jobs.splice(0..0, page.jobs);
            paging.after = page.searched_to;
        } else {
            found.jobs.extend(page.jobs);
            paging.before = page.searched_to;
        }
        let Some(searched_to) = page.searched_to.filter(|_| found.jobs.len() < start.limit) else {
            return Ok(found);
        };
        if is_from_newest
            && found.jobs.is_empty()
            && let Some(count) = Count::without(operator, &filter.kinds).await?
            && operator.show(searched_to).await?.is_some_and(|(job, _)| job.enqueued_at < count.begun)
        {
            found.not_counted = Some(NotCounted { searched_to, age: count.age });
            return Ok(found);
        }
        if began.elapsed() >= longest {
            return Ok(found);
        }
    }
}

/// What an action on all jobs that match would do now. If it finds none in a second, and the count is not exact, it
/// does not know whether there are any.
pub async fn preview(operator: &dyn Operator, action: &Action, filter: &JobFilter) -> StorageResult<Preview> {
    let filter = filter_for(action, filter).map_err(StorageError::Config)?;
    let count = operator.count(&filter).await?;
    if count == (page::Count { jobs: 0, is_exact: true }) {
        return Ok(Preview { count, sample: Vec::new() });
    }
    // A count examines a bounded number of the newest jobs of each state. Those that match may all be older.
    let found = search(operator, &filter, Paging::newest(SAMPLE), LONGEST).await?;
    let (jobs, is_all) = (found.jobs.len() as u64, found.jobs.len() < SAMPLE && found.searched_to.is_none());
    let count = match is_all && !count.is_exact {
        true => page::Count { jobs, is_exact: true },
        false => page::Count { jobs: count.jobs.max(jobs), ..count },
    };
    Ok(Preview { count, sample: found.jobs })
}
