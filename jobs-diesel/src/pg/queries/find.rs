//! `find`: the ids of the jobs that match a filter, newest or oldest first. It examines a bounded number of rows of
//! each source, in the order of the ids, so it answers fast also if nothing matches. For a source in which it has found
//! fewer jobs than wanted, it also returns the last id that it has examined.
//!
//! The text depends on the filter, so the statement is not kept prepared.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Bool, Integer, Nullable};
use diesel_jobs_core::storage::JobFilter;

use super::examined::Examined;
use super::matching::{Matching, Source};
use crate::bounded::Range;
use crate::pg::native::sql;

pub(crate) struct FindQuery {
    sources: Vec<(Source, Matching)>,
    examined: Examined,
    range: Range,
}

impl FindQuery {
    /// If `only_known`, jobs of later versions are left out. `None` if no job can match.
    pub(crate) fn new(filter: &JobFilter, range: Range, only_known: bool) -> Option<Self> {
        let sources: Vec<(Source, Matching)> =
            Source::of(filter).into_iter().map(|source| (source, Matching::new(source, filter, only_known))).collect();
        (!sources.is_empty()).then(|| Self { sources, examined: Examined::new(filter, range), range })
    }
}

impl QueryFragment<Pg> for FindQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        let (direction, limit) = (self.range.direction(), self.range.limit.to_string());
        out.push_sql("with found as (");
        for (number, (source, matching)) in self.sources.iter().enumerate() {
            out.push_sql(if number == 0 { "(" } else { " union all (" });
            out.push_sql(&format!("select {number} as source, job.id from ("));
            self.examined.rows(*source, out.reborrow())?;
            sql!(out, ") job where " {*matching} " order by job.id " (direction) " limit " (&limit) ")")?;
        }
        out.push_sql(")\nselect source, id, false from found");
        let sources = if self.examined.is_bounded() { self.sources.as_slice() } else { &[] };
        for (number, (source, _)) in sources.iter().enumerate() {
            let number = number.to_string();
            sql!(out, " union all (select " (&number) ", (")?;
            self.examined.edge(*source, out.reborrow())?;
            sql!(out, "), true where (select count(*) from found where source = " (&number) ") < " (&limit) ")")?;
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
