//! `lock_jobs`: locks jobs for a step of an operation. Rows that other sessions have locked are passed over, and the
//! step tries them again.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt};
use diesel_jobs_core::storage::Action;

use crate::pg::native::sql;

/// Returns those of these jobs of a table that no other session has locked.
pub(crate) struct LockJobsQuery {
    pub(crate) table: &'static str,
    pub(crate) ids: Vec<i64>,
}

/// The tables from which an action deletes rows.
pub(crate) fn tables(action: &Action) -> &'static [&'static str] {
    match action {
        Action::Retry | Action::Delete => &["jobs.ready", "jobs.held", "jobs.finished"],
        Action::Cancel => &["jobs.ready", "jobs.held", "jobs.running"],
        Action::Rerun => &[],
        _ => &["jobs.ready", "jobs.held"],
    }
}

impl QueryFragment<Pg> for LockJobsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // One by one, see `by_id`.
        sql!(
            out,
            "select found.id from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral (
    select id from " (self.table) " where id = wanted.id for update skip locked
) found"
        )
    }
}

// The text depends on the table. So prepared statements are cached by their text and not by this type.
impl QueryId for LockJobsQuery {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for LockJobsQuery {
    type SqlType = BigInt;
}

impl<C> RunQueryDsl<C> for LockJobsQuery {}
