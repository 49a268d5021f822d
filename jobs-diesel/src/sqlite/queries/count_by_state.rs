//! `count_by_state`: how many jobs of a filter are in each state. It examines a bounded number of rows of each source,
//! like `find`.

use diesel::SqliteConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::JobState;
use diesel_jobs_core::storage::{Count, JobFilter};

use crate::bounded::{FAILED, Has, Range, by_state, examined};
use crate::sqlite::queries::find::failed_with;
use crate::sqlite::queries::matching::Matching;
use crate::sqlite::time::NOW;

/// A set of rows that has an order or an index: its condition and its states.
const SOURCES: [(&str, Has); 4] = [
    ("true order by id desc", |state| state.is_waiting() || state == JobState::Completed),
    ("state = 'running'", |state| state == JobState::Running),
    ("state = 'cancelled' order by id desc", |state| state == JobState::Cancelled),
    ("state = 'discarded' order by id desc", |state| state == JobState::Discarded),
];

/// Counts the jobs, in the order of the states.
pub(crate) fn count_by_state(conn: &mut SqliteConnection, filter: &JobFilter) -> QueryResult<Vec<(JobState, Count)>> {
    let matching = Matching::new(&JobFilter { states: Vec::new(), ..filter.clone() }, false);
    let mut rows = Vec::new();
    let failed = filter.fingerprint.filter(|_| filter.ids.is_empty());
    let failed = failed.map(|fingerprint| failed_with(fingerprint, &Range::count(filter)));
    if let Some(failed) = &failed {
        let examined = sql::<BigInt>(&format!("(select count(*) from ({failed}))"));
        rows.push((FAILED, String::new(), 0, diesel::select(examined).get_result(conn)?));
    }
    for (number, (condition, has)) in (0_i32..).zip(SOURCES) {
        if JobState::ALL.into_iter().any(|state| has(state) && filter.takes(state)) {
            let (examined, failed) = (examined(filter), failed.as_deref());
            let counted: Vec<(String, i64, i64)> =
                CountSource { condition, examined, ids: &filter.ids, failed, matching: &matching }.load(conn)?;
            rows.extend(counted.into_iter().map(|(state, jobs, seen)| (number, state, jobs, seen)));
        }
    }
    let sources: Vec<_> = (0_i32..).zip(SOURCES).map(|(number, (_, has))| (number, has)).collect();
    Ok(by_state(filter, &sources, &rows))
}

struct CountSource<'a> {
    condition: &'static str,
    examined: usize,
    ids: &'a [diesel_jobs_core::JobId],
    failed: Option<&'a str>,
    matching: &'a Matching,
}

impl QueryFragment<Sqlite> for CountSource<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        out.push_sql(&format!(
            "select case when job.state <> 'available' then job.state when job.due_at <= {NOW} then 'held' when job.run_at <= {NOW} then 'available' \
             when job.attempt > 0 then 'retrying' else 'scheduled' end, count(*) filter (where "
        ));
        self.matching.walk_ast(out.reborrow())?;
        out.push_sql("), count(*) from (select * from jobs_job where ");
        if !self.ids.is_empty() {
            let ids: Vec<String> = self.ids.iter().map(ToString::to_string).collect();
            out.push_sql(&format!("id in ({}) and ", ids.join(",")));
        }
        if let Some(failed) = self.failed {
            out.push_sql(&format!("id in ({failed}) and "));
        }
        out.push_sql(&format!("{} limit {}) job group by 1", self.condition, self.examined));
        Ok(())
    }
}

impl QueryId for CountSource<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for CountSource<'_> {
    type SqlType = (Text, BigInt, BigInt);
}

impl RunQueryDsl<SqliteConnection> for CountSource<'_> {}
