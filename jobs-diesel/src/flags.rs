//! The condition that excludes rows with flags that this version does not know.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::Bool;
use diesel_jobs_core::flags::{self, KNOWN};

/// The condition that this version knows all flags of a job, see [`diesel_jobs_core::flags`]. The field is the name or
/// the alias of the table. The known flags are a literal, so that the planner computes their complement once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagsKnown(pub(crate) &'static str);

/// The same for a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduleFlagsKnown(pub(crate) &'static str);

macro_rules! condition {
    ($name:ident, $known:expr) => {
        impl<DB: Backend> QueryFragment<DB> for $name {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
                out.push_sql(&format!("({}.flags & ~{}) = 0", self.0, $known));
                Ok(())
            }
        }

        // The SQL text depends on the table. So prepared statements are cached by their text and not by this type.
        impl QueryId for $name {
            type QueryId = ();
            const HAS_STATIC_QUERY_ID: bool = false;
        }

        impl Expression for $name {
            type SqlType = Bool;
        }

        impl<T> SelectableExpression<T> for $name {}
        impl<T> AppearsOnTable<T> for $name {}

        impl ValidGrouping<()> for $name {
            type IsAggregate = is_aggregate::Never;
        }
    };
}

condition!(FlagsKnown, KNOWN);
condition!(ScheduleFlagsKnown, flags::schedules::KNOWN);
