//! A bounded search for jobs: what a storage examines, and what the answer says.

use std::collections::HashMap;

#[cfg(feature = "sqlite")]
use diesel_jobs_core::JobId;
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{COUNTED, Count, EXAMINED, EXAMINED_AT_COST, JobFilter, MAX_PAGE, Paging};

/// Which ids are searched, in which direction, and how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
    pub(crate) ascends: bool,
    /// At most this many jobs are found.
    pub(crate) limit: usize,
    /// At most this many rows of each source are examined.
    pub(crate) examined: usize,
}

/// What a search has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// In the direction of the search.
    pub(crate) ids: Vec<i64>,
    /// The last id that was examined, if there may be more behind it.
    pub(crate) searched_to: Option<i64>,
}

/// The number of a source, and the id of a job in it. If the last is true, it is the last id that was examined. It is
/// null if all were examined.
pub(crate) type FoundRow = (i32, Option<i64>, bool);

/// How many rows of each source are examined.
pub(crate) fn examined(filter: &JobFilter) -> usize {
    if filter.is_costly() { EXAMINED_AT_COST } else { EXAMINED }
}

impl Range {
    /// For a page of a list.
    pub(crate) fn page(filter: &JobFilter, paging: Paging) -> Self {
        Self {
            lowest: paging.after.map_or(i64::MIN, |id| id.0.saturating_add(1)),
            highest: paging.before.map_or(i64::MAX, |id| id.0.saturating_sub(1)),
            ascends: paging.ascends(),
            limit: paging.limit.clamp(1, MAX_PAGE),
            examined: examined(filter),
        }
    }

    /// For a count.
    pub(crate) fn count(filter: &JobFilter) -> Self {
        let limit = usize::try_from(COUNTED).unwrap_or(usize::MAX).saturating_add(1);
        Self { lowest: i64::MIN, highest: i64::MAX, ascends: false, limit, examined: examined(filter) }
    }

    pub(crate) fn direction(&self) -> &'static str {
        if self.ascends { "asc" } else { "desc" }
    }

    /// Merges what was found in each source. Beyond the id to which some source was searched, jobs may be missing.
    /// These are left out.
    pub(crate) fn merge(&self, rows: Vec<FoundRow>) -> Found {
        // A search to lower ids is one to higher ids among the numbers with the other sign.
        let turned = |id: i64| if self.ascends { i128::from(id) } else { -i128::from(id) };
        let mut of_source: HashMap<i32, Vec<i64>> = HashMap::new();
        let mut edges = Vec::new();
        for (source, id, is_edge) in rows {
            match (id, is_edge) {
                (Some(id), true) => edges.push(id),
                (Some(id), false) => of_source.entry(source).or_default().push(id),
                (None, _) => {}
            }
        }
        for ids in of_source.values().filter(|ids| ids.len() >= self.limit) {
            edges.extend(ids.iter().copied().max_by_key(|id| turned(*id)));
        }
        let edge = edges.into_iter().min_by_key(|id| turned(*id));
        let mut ids: Vec<i64> = of_source.into_values().flatten().collect();
        ids.retain(|id| edge.is_none_or(|edge| turned(*id) <= turned(edge)));
        ids.sort_unstable_by_key(|id| turned(*id));
        // A job that is moved during the search on its way is found once.
        ids.dedup();
        let is_cut = ids.len() > self.limit;
        ids.truncate(self.limit);
        let searched_to = if is_cut { ids.last().copied() } else { edge };
        Found { ids, searched_to }
    }

    /// How many jobs were found.
    #[cfg(feature = "sqlite")]
    pub(crate) fn number(rows: &[FoundRow]) -> Count {
        let jobs = rows.iter().filter(|(_, id, is_edge)| id.is_some() && !is_edge).count() as u64;
        let is_open = rows.iter().any(|(_, id, is_edge)| id.is_some() && *is_edge);
        Count { jobs: jobs.min(COUNTED), is_exact: jobs <= COUNTED && !is_open }
    }
}

/// In place of a source: the jobs that have failed with the fingerprint of the filter, whatever their states.
pub(crate) const FAILED: i32 = -1;

/// A source of a count, a state, how many jobs of the state match, and how many were examined.
pub(crate) type StateRow = (i32, String, i64, i64);

/// Which states are counted in a source.
pub(crate) type Has = fn(JobState) -> bool;

/// The numbers of jobs in each state that the filter takes. `sources` says in which source the jobs of a state are
/// counted, by its number.
pub(crate) fn by_state(filter: &JobFilter, sources: &[(i32, Has)], rows: &[StateRow]) -> Vec<(JobState, Count)> {
    let sum = |source: i32, number: &dyn Fn(&StateRow) -> i64| -> u64 {
        rows.iter().filter(|row| row.0 == source).map(|row| number(row).unsigned_abs()).sum()
    };
    let count = |state: JobState| {
        // A scheduled job is among the waiting jobs, or among those with a limit.
        let sources: Vec<i32> = sources.iter().filter(|(_, has)| has(state)).map(|(source, _)| *source).collect();
        if sources.is_empty() {
            return None;
        }
        let of_state = |row: &StateRow| if row.1 == state.as_str() { row.2 } else { 0 };
        let jobs: u64 = sources.iter().map(|source| sum(*source, &of_state)).sum();
        let is_read = |source: &i32| sum(*source, &|row| row.3) < examined(filter) as u64;
        let is_whole = !filter.ids.is_empty() || sources.iter().chain(&[FAILED]).all(is_read);
        Some((state, Count { jobs: jobs.min(COUNTED), is_exact: is_whole && jobs <= COUNTED }))
    };
    JobState::ALL.into_iter().filter(|state| filter.takes(*state)).filter_map(count).collect()
}

impl Found {
    /// The ids of a page, the newest first.
    pub(crate) fn newest_first(mut self) -> Vec<i64> {
        self.ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        self.ids
    }
}

/// The ids as those of jobs.
#[cfg(feature = "sqlite")]
pub(crate) fn jobs(ids: &[i64]) -> Vec<JobId> {
    ids.iter().copied().map(JobId).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(ascends: bool) -> Range {
        Range { lowest: i64::MIN, highest: i64::MAX, ascends, limit: 3, examined: 10 }
    }

    #[test]
    fn a_page_ends_where_a_source_was_not_searched_further() {
        let rows =
            vec![(1, Some(9), false), (1, Some(2), false), (2, Some(7), false), (2, Some(5), true), (1, None, true)];
        assert_eq!(range(false).merge(rows), Found { ids: vec![9, 7], searched_to: Some(5) });
        let rows = vec![(1, Some(2), false), (2, Some(7), false), (1, Some(5), true)];
        assert_eq!(range(true).merge(rows), Found { ids: vec![2], searched_to: Some(5) });
    }

    #[test]
    fn a_page_that_is_full_goes_on_behind_its_last_job() {
        let rows = vec![(1, Some(9), false), (1, Some(8), false), (1, Some(3), false), (2, Some(7), false)];
        assert_eq!(range(false).merge(rows.clone()), Found { ids: vec![9, 8, 7], searched_to: Some(7) });
        let rows = vec![(1, Some(3), false), (2, Some(7), false), (1, None, true), (2, None, true)];
        assert_eq!(range(false).merge(rows), Found { ids: vec![7, 3], searched_to: None });
    }

    #[test]
    fn a_state_is_counted_in_its_source_only() {
        let sources: [(i32, Has); 2] = [(0, JobState::is_waiting), (1, |state| state == JobState::Discarded)];
        let seen = i64::try_from(EXAMINED).unwrap();
        let row = |source, state: &str, jobs, seen| (source, state.to_owned(), jobs, seen);
        let rows =
            [row(0, "available", 12_000, 12_000), row(0, "retrying", 3, seen - 12_000), row(1, "discarded", 5, 9)];
        let counts = by_state(&JobFilter::default(), &sources, &rows);
        let text: Vec<_> = counts.iter().map(|(state, count)| format!("{state} {count}")).collect();
        assert_eq!(text, ["available 10,000+", "scheduled 0+", "retrying 3+", "held 0+", "discarded 5"]);
    }

    #[test]
    fn a_count_is_exact_if_all_was_looked_at() {
        assert_eq!(Range::number(&[(1, Some(3), false), (1, None, true)]), Count { jobs: 1, is_exact: true });
        assert_eq!(Range::number(&[(1, Some(3), false), (1, Some(2), true)]), Count { jobs: 1, is_exact: false });
        let many: Vec<FoundRow> = (0..10_001).map(|id| (1, Some(id), false)).collect();
        assert_eq!(Range::number(&many), Count { jobs: 10_000, is_exact: false });
    }
}
