//! `find`: the ids of the jobs that match a filter, newest or oldest first. It examines a bounded number of rows of
//! each source, so it is fast even if nothing matches.
//!
//! A source is all rows in the order of their ids, or a part of them that has an index. The parts are the jobs that
//! have failed with the fingerprint of the filter. Without one they are running, cancelled and discarded jobs, and
//! waiting jobs unless there are many.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::BigInt;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::JobFilter;

use crate::bounded::{FoundRow, Range};
use crate::sqlite::literal::AVAILABLE;
use crate::sqlite::queries::matching::Matching;
use crate::sqlite::schema::jobs_job;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    All,
    Waiting,
    Running,
    Cancelled,
    Discarded,
    /// With this fingerprint.
    Failed(i64),
}

impl Source {
    fn of(conn: &mut SqliteConnection, filter: &JobFilter, range: &Range) -> QueryResult<Vec<Self>> {
        let takes = |state| filter.takes(state);
        if let (Some(fingerprint), true) = (filter.fingerprint, filter.ids.is_empty()) {
            return Ok(vec![Self::Failed(fingerprint)]);
        }
        if !filter.ids.is_empty() || takes(JobState::Completed) {
            return Ok(vec![Self::All]);
        }
        let mut sources = Vec::new();
        if JobState::ALL.into_iter().any(|state| state.is_waiting() && takes(state)) {
            let most = i64::try_from(range.examined).unwrap_or(i64::MAX);
            let beyond =
                jobs_job::table.filter(jobs_job::state.eq(AVAILABLE)).select(jobs_job::id).offset(most).limit(1);
            if beyond.first::<i64>(conn).optional()?.is_some() {
                return Ok(vec![Self::All]);
            }
            sources.push(Self::Waiting);
        }
        sources.extend(takes(JobState::Running).then_some(Self::Running));
        sources.extend(takes(JobState::Cancelled).then_some(Self::Cancelled));
        sources.extend(takes(JobState::Discarded).then_some(Self::Discarded));
        Ok(sources)
    }

    /// The condition, and the order. A plus sign keeps SQLite from reading all rows in the order of their ids.
    fn condition(self) -> (&'static str, &'static str) {
        match self {
            Self::All | Self::Failed(_) => ("", "id"),
            Self::Waiting => (" and state = 'available'", "+id"),
            Self::Running => (" and state = 'running'", "+id"),
            Self::Cancelled => (" and state = 'cancelled'", "id"),
            Self::Discarded => (" and state = 'discarded'", "id"),
        }
    }
}

/// Finds the jobs. If `only_known`, jobs of later versions are left out. See [`Range::merge`] for the answer.
pub(crate) fn find(
    conn: &mut SqliteConnection,
    filter: &JobFilter,
    range: Range,
    only_known: bool,
) -> QueryResult<Vec<FoundRow>> {
    let mut rows = Vec::new();
    let matching = Matching::new(filter, only_known);
    for (number, source) in (0_i32..).zip(Source::of(conn, filter, &range)?) {
        let search = Search { source, range, ids: &filter.ids, matching: Some(&matching) };
        let found: Vec<i64> = search.load(conn)?;
        let is_short = found.len() < range.limit && filter.ids.is_empty();
        rows.extend(found.into_iter().map(|id| (number, Some(id), false)));
        if is_short {
            let edge: Vec<i64> = Search { source, range, ids: &[], matching: None }.load(conn)?;
            rows.push((number, edge.into_iter().next(), true));
        }
    }
    Ok(rows)
}

/// The ids of the jobs that have failed with a fingerprint, as many as are examined.
pub(super) fn failed_with(fingerprint: i64, range: &Range) -> String {
    let (direction, Range { examined, lowest, highest, .. }) = (range.direction(), range);
    format!(
        "select distinct job_id as id from jobs_job_error where fingerprint = {fingerprint} and job_id >= {lowest} \
         and job_id <= {highest} order by job_id {direction} limit {examined}"
    )
}

struct Search<'a> {
    source: Source,
    range: Range,
    ids: &'a [diesel_jobs_core::JobId],
    /// `None` finds the last row that is examined.
    matching: Option<&'a Matching>,
}

impl QueryFragment<Sqlite> for Search<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        let (condition, order) = self.source.condition();
        let (direction, Range { examined, limit, lowest, highest, .. }) = (self.range.direction(), &self.range);
        if self.matching.is_some() {
            out.push_sql("select job.id from (");
        }
        let columns = if self.matching.is_some() { "*" } else { "id" };
        let rows = match self.source {
            Source::Failed(fingerprint) if self.matching.is_some() => {
                format!("(select * from jobs_job where id in ({}))", failed_with(fingerprint, &self.range))
            }
            Source::Failed(fingerprint) => format!("({})", failed_with(fingerprint, &self.range)),
            _ => "jobs_job".to_owned(),
        };
        out.push_sql(&format!("select {columns} from {rows} where id >= "));
        out.push_bind_param::<BigInt, _>(lowest)?;
        out.push_sql(" and id <= ");
        out.push_bind_param::<BigInt, _>(highest)?;
        out.push_sql(condition);
        if !self.ids.is_empty() {
            let ids: Vec<String> = self.ids.iter().map(ToString::to_string).collect();
            out.push_sql(&format!(" and id in ({})", ids.join(",")));
        }
        let Some(matching) = self.matching else {
            out.push_sql(&format!(" order by {order} {direction} limit 1 offset {}", examined.saturating_sub(1)));
            return Ok(());
        };
        let examined = if self.ids.is_empty() { *examined } else { self.ids.len() };
        out.push_sql(&format!(" order by {order} {direction} limit {examined}) job where "));
        matching.walk_ast(out.reborrow())?;
        out.push_sql(&format!(" order by job.id {direction} limit {limit}"));
        Ok(())
    }
}

impl QueryId for Search<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Search<'_> {
    type SqlType = BigInt;
}

impl RunQueryDsl<SqliteConnection> for Search<'_> {}
