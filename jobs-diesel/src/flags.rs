//! The condition that keeps a statement off rows that this version does not understand.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::Bool;
use diesel_jobs_core::flags::KNOWN;

/// Whether this version knows all flags of a row of this table, see [`diesel_jobs_core::flags`]. The number is a literal, so that
/// the planner computes its complement once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagsKnown(pub(crate) &'static str);

impl<DB: Backend> QueryFragment<DB> for FlagsKnown {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql(&format!("({}.flags & ~{KNOWN}) = 0", self.0));
        Ok(())
    }
}

// Statements on different tables are different statements: their preparations are kept by text.
impl QueryId for FlagsKnown {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Expression for FlagsKnown {
    type SqlType = Bool;
}

impl<T> SelectableExpression<T> for FlagsKnown {}
impl<T> AppearsOnTable<T> for FlagsKnown {}

impl ValidGrouping<()> for FlagsKnown {
    type IsAggregate = is_aggregate::Never;
}
