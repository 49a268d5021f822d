//! Pages of a list of jobs, and counts. Both examine a bounded number of rows, so they answer fast however many jobs
//! there are.

use serde::Serialize;

use crate::job_id::JobId;
use crate::record::JobRecord;

/// The most jobs of one page.
pub const MAX_PAGE: usize = 1000;
/// How many jobs a list or a count examines, per table.
pub const EXAMINED: usize = 20_000;
/// The same for a filter that [needs more than the row of a job](super::JobFilter::is_costly).
pub const EXAMINED_AT_COST: usize = 5_000;
/// Up to this number a count is exact.
pub const COUNTED: u64 = 10_000;

/// Which page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Only jobs with a lower id. For the next page, set it to [`Page::searched_to`].
    pub before: Option<JobId>,
    /// Only jobs with a higher id. Without `before`, the page has those that come next after this id.
    pub after: Option<JobId>,
    /// At most this many, and at most [`MAX_PAGE`].
    pub limit: usize,
}

impl Paging {
    /// The first page: the newest jobs.
    pub fn newest(limit: usize) -> Self {
        Self { before: None, after: None, limit }
    }

    /// The page of the jobs before this one.
    pub fn before(id: JobId, limit: usize) -> Self {
        Self { before: Some(id), ..Self::newest(limit) }
    }

    /// The page of the jobs that come next after this one.
    pub fn after(id: JobId, limit: usize) -> Self {
        Self { after: Some(id), ..Self::newest(limit) }
    }

    /// Whether the search goes from lower to higher ids.
    pub fn ascends(&self) -> bool {
        self.after.is_some() && self.before.is_none()
    }
}

/// One page of a list of jobs.
#[derive(Clone, Default, Serialize)]
pub struct Page {
    /// The jobs, newest first. It may be empty although there are more.
    pub jobs: Vec<JobRecord>,
    /// The id to which the list has searched, if there may be more jobs behind it. Continue with `before` this id, or
    /// `after` it if the page was asked for with `after` only.
    pub searched_to: Option<JobId>,
}

/// How many jobs match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// At least this many.
    pub jobs: u64,
    /// Whether it is exactly this many.
    pub is_exact: bool,
}

impl Count {
    /// The sum. Above [`COUNTED`] it is not exact.
    pub fn total(counts: impl IntoIterator<Item = Self>) -> Self {
        let sum = counts.into_iter().fold(Self { jobs: 0, is_exact: true }, |sum, count| Self {
            jobs: sum.jobs.saturating_add(count.jobs),
            is_exact: sum.is_exact && count.is_exact,
        });
        if sum.jobs > COUNTED { Self { jobs: COUNTED, is_exact: false } } else { sum }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.jobs.to_string();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        f.write_str(if self.is_exact { "" } else { "+" })
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn a_count_says_whether_there_are_more() {
        assert_eq!(Count { jobs: 1_234_567, is_exact: true }.to_string(), "1,234,567");
        assert_eq!(Count { jobs: 10_000, is_exact: false }.to_string(), "10,000+");
        assert_eq!(Count { jobs: 37, is_exact: true }.to_string(), "37");
    }

    #[test]
    fn a_sum_is_exact_if_all_its_parts_are_and_it_is_not_too_large() {
        let count = |jobs, is_exact| Count { jobs, is_exact };
        assert_eq!(Count::total([]), count(0, true));
        assert_eq!(Count::total([count(3, true), count(4, true)]), count(7, true));
        assert_eq!(Count::total([count(3, true), count(4, false)]), count(7, false));
        assert_eq!(Count::total([count(6000, true), count(4001, true)]), count(10_000, false));
    }
}
