//! `find`: the ids of the jobs that match a filter, newest or oldest first. It examines a bounded number of rows of
//! each source, in the order of the ids, so it answers fast also if nothing matches. For a source in which it has found
//! fewer jobs than wanted, it also returns the last id that it has examined.
//!
//! It uses `ready_id`, the primary keys and `finished_unsuccessful`. The text depends on the filter, so the statement
//! is not kept prepared.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable};
use diesel_jobs_core::storage::JobFilter;

use super::matching::{Matching, Source};
use crate::bounded::Range;
use crate::pg::native::sql;

pub(crate) struct FindQuery {
    sources: Vec<(Source, Matching)>,
    ids: Vec<i64>,
    range: Range,
}

impl FindQuery {
    /// If `only_known`, jobs of later versions are left out. `None` if no job can match.
    pub(crate) fn new(filter: &JobFilter, range: Range, only_known: bool) -> Option<Self> {
        let sources: Vec<(Source, Matching)> =
            Source::of(filter).into_iter().map(|source| (source, Matching::new(source, filter, only_known))).collect();
        let ids = filter.ids.iter().map(|id| id.0).collect();
        (!sources.is_empty()).then_some(Self { sources, ids, range })
    }

    /// The rows of a source in the range, at most as many as are examined.
    fn rows<'b>(&'b self, source: Source, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let Range { lowest, highest, examined, .. } = &self.range;
        if self.ids.is_empty() {
            return sql!(
                out,
                "select * from " (source.table()) " where id >= " [*lowest => BigInt] " and id <= " [*highest => BigInt]
                (source.condition()) " order by id " (self.range.direction()) " limit " (&examined.to_string())
            );
        }
        // One by one, see `by_id`.
        sql!(
            out,
            "select found.* from (select distinct unnest(" [self.ids => Array<BigInt>] ") as id) wanted cross join lateral (select * from "
            (source.table()) " where id = wanted.id" (source.condition()) " offset 0) found where found.id >= " [*lowest => BigInt]
            " and found.id <= " [*highest => BigInt]
        )
    }
}

impl QueryFragment<Pg> for FindQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        let Range { lowest, highest, examined, limit, .. } = &self.range;
        let (direction, limit) = (self.range.direction(), limit.to_string());
        out.push_sql("with found as (");
        for (number, (source, matching)) in self.sources.iter().enumerate() {
            out.push_sql(if number == 0 { "(" } else { " union all (" });
            out.push_sql(&format!("select {number} as source, job.id from ("));
            self.rows(*source, out.reborrow())?;
            sql!(out, ") job where " {*matching} " order by job.id " (direction) " limit " (&limit) ")")?;
        }
        out.push_sql(")\nselect source, id, false from found");
        let sources = if self.ids.is_empty() { self.sources.as_slice() } else { &[] };
        for (number, (source, _)) in sources.iter().enumerate() {
            sql!(
                out,
                " union all (select " (&number.to_string()) ", (select id from " (source.table()) " where id >= " [*lowest => BigInt]
                " and id <= " [*highest => BigInt] (source.condition()) " order by id " (direction)
                " offset " (&examined.saturating_sub(1).to_string()) " limit 1), true where (select count(*) from found where source = "
                (&number.to_string()) ") < " (&limit) ")"
            )?;
        }
        Ok(())
    }
}

impl QueryId for FindQuery {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for FindQuery {
    type SqlType = (Integer, Nullable<BigInt>, Bool);
}

impl<C> RunQueryDsl<C> for FindQuery {}
