//! The clock: SQLite's, in microseconds since 1970. The one place in the program that asks for the time; the defaults in
//! the schema say the same. SQLite's clock ticks in milliseconds and stands still within a statement.

use std::time::Duration;

use diesel::QueryResult;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::BigInt;
use diesel::sqlite::Sqlite;

pub(super) const NOW: &str = "(cast(round(unixepoch('subsec') * 1000) as integer) * 1000)";

/// The present.
#[derive(Clone, Copy, Debug, QueryId)]
pub(super) struct Now;

/// The present and some microseconds.
#[derive(Clone, Copy, Debug, QueryId)]
pub(super) struct NowPlus(i64);

/// The instant that lies this far ahead.
pub(super) fn after(delay: Duration) -> NowPlus {
    NowPlus(micros(delay))
}

/// Microseconds, at most a thousand years of them: no sum of them leaves what a timestamp can hold.
pub(super) fn micros(span: Duration) -> i64 {
    const MILLENNIUM: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(span.as_micros()).unwrap_or(MILLENNIUM).min(MILLENNIUM)
}

impl QueryFragment<Sqlite> for Now {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql(NOW);
        Ok(())
    }
}

impl QueryFragment<Sqlite> for NowPlus {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("(");
        out.push_sql(NOW);
        out.push_sql(" + ");
        out.push_bind_param::<BigInt, _>(&self.0)?;
        out.push_sql(")");
        Ok(())
    }
}

macro_rules! instant {
    ($name:ident) => {
        impl Expression for $name {
            type SqlType = BigInt;
        }
        impl<T> SelectableExpression<T> for $name {}
        impl<T> AppearsOnTable<T> for $name {}
        impl ValidGrouping<()> for $name {
            type IsAggregate = is_aggregate::Never;
        }
    };
}

instant!(Now);
instant!(NowPlus);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_spans_stay_within_a_timestamp() {
        let farthest = chrono::Utc::now().timestamp_micros().checked_add(micros(Duration::MAX)).unwrap();
        assert!(chrono::DateTime::from_timestamp_micros(farthest).is_some());
        assert_eq!(micros(Duration::from_millis(3)), 3000);
    }
}
