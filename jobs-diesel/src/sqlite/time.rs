//! The current time by SQLite's clock, in microseconds since 1970. All statements take the time from here. The defaults
//! in the schema use the same expression. The clock has a resolution of one millisecond and does not advance within a
//! statement.

use std::time::Duration;

use diesel::QueryResult;
use diesel::expression::{AppearsOnTable, Expression, SelectableExpression, ValidGrouping, is_aggregate};
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::sql_types::BigInt;
use diesel::sqlite::Sqlite;

pub(super) const NOW: &str = "(cast(round(unixepoch('subsec') * 1000) as integer) * 1000)";

/// The `run_at` of held jobs, in the year 9999: at the end of the order in which claims read.
pub(super) const FAR: i64 = 253_370_764_800_000_000;

/// The current time.
#[derive(Clone, Copy, Debug, QueryId)]
pub(super) struct Now;

/// The current time plus this many microseconds.
#[derive(Clone, Copy, Debug, QueryId)]
pub(super) struct NowPlus(i64);

/// The time that is `delay` ahead of now.
pub(super) fn after(delay: Duration) -> NowPlus {
    NowPlus(micros(delay))
}

/// A time span in microseconds, at most a thousand years. So its sum with the current time is a valid timestamp.
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
