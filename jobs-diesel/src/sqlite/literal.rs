//! A state as a literal in the SQL text. With a bind parameter, the planner could not use a partial index with this
//! condition, and the claim would read the whole table.

use diesel::QueryResult;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::Text;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::JobState;

/// The state's name, in quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Literal(JobState);

pub(super) const AVAILABLE: Literal = Literal(JobState::Available);
pub(super) const RUNNING: Literal = Literal(JobState::Running);

/// This state as a literal.
pub(super) const fn literal(state: JobState) -> Literal {
    Literal(state)
}

impl QueryFragment<Sqlite> for Literal {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("'");
        out.push_sql(self.0.as_str());
        out.push_sql("'");
        Ok(())
    }
}

// The SQL text depends on the state. So prepared statements are cached by their text and not by this type.
impl QueryId for Literal {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Expression for Literal {
    type SqlType = Text;
}

impl<T> SelectableExpression<T> for Literal {}
impl<T> AppearsOnTable<T> for Literal {}

impl ValidGrouping<()> for Literal {
    type IsAggregate = is_aggregate::Never;
}
