//! Queries that a worker can do without for a while, because they may be slow: they read the entries of deleted jobs
//! that vacuum has not removed yet, and those of transactions that have not committed.

use std::time::{Duration, Instant};

/// A query is slow if it takes longer than this.
const SLOW: Duration = Duration::from_millis(20);
/// After this many slow queries in a row, the worker stops them for a while. Fewer may be chance, or a new connection.
const IN_A_ROW: u32 = 3;
/// How long the worker then makes no such query: at least this long,
const NO_QUERY: Duration = Duration::from_secs(10);
/// but not longer than this.
const NO_QUERY_AT_MOST: Duration = Duration::from_secs(60);

/// Whether a query was slow the last times.
#[derive(Debug, Default)]
pub(crate) struct SlowQueries {
    /// The pause is this many times as long as the last query took, within its bounds.
    factor: u32,
    slow: u32,
    none_until: Option<Instant>,
}

impl SlowQueries {
    pub(crate) fn with_factor(factor: u32) -> Self {
        Self { factor, ..Self::default() }
    }

    /// Whether to make the query.
    pub(crate) fn may_query(&self, now: Instant) -> bool {
        self.none_until.is_none_or(|until| now >= until)
    }

    /// Records how long it took.
    pub(crate) fn note(&mut self, took: Duration, now: Instant) {
        self.slow = if took > SLOW { self.slow.saturating_add(1) } else { 0 };
        self.none_until = (self.slow >= IN_A_ROW).then(|| now + (took * self.factor).clamp(NO_QUERY, NO_QUERY_AT_MOST));
    }

    /// The query has failed, perhaps because it was cancelled after a long time.
    pub(crate) fn note_failure(&mut self, now: Instant) {
        self.none_until = Some(now + NO_QUERY_AT_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_slow_queries_there_is_none_for_a_while() {
        let (mut queries, now) = (SlowQueries::with_factor(50), Instant::now());
        for _ in 0..IN_A_ROW {
            assert!(queries.may_query(now));
            queries.note(SLOW * 2, now);
        }
        assert!(!queries.may_query(now + NO_QUERY / 2));
        assert!(queries.may_query(now + NO_QUERY));
        queries.note(SLOW * 2, now + NO_QUERY);
        assert!(!queries.may_query(now + NO_QUERY), "it is as slow as before");
        queries.note(NO_QUERY, now + NO_QUERY);
        assert!(!queries.may_query(now + NO_QUERY + NO_QUERY_AT_MOST / 2), "it is much slower");
        assert!(queries.may_query(now + NO_QUERY + NO_QUERY_AT_MOST));
        queries.note_failure(now);
        assert!(!queries.may_query(now + NO_QUERY_AT_MOST / 2));
        queries.note(SLOW, now + NO_QUERY * 2);
        queries.note(SLOW * 2, now + NO_QUERY * 2);
        assert!(queries.may_query(now + NO_QUERY * 2), "once is not in a row");
    }
}
