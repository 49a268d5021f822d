//! `dead_rows`: whether an old snapshot keeps dead rows in the tables of the queue. A count would read all of them.
//!
//! A role without `pg_read_all_stats` sees only its own sessions and the prepared transactions. It counts then.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Double};

use crate::pg::native::{native_query, sql};

/// Returns the age of the oldest snapshot or open transaction in seconds, and the number of dead rows of waiting and
/// ended jobs, by the server's statistics.
pub(crate) struct DeadRowsQuery;

/// From this age on a snapshot is old,
const OLD_SECONDS: f64 = 60.0;
/// and from this number on dead rows make a count slow.
const MANY: i64 = 100_000;

/// Why nothing should be counted, if so.
pub(crate) fn reason((age, dead): (f64, i64)) -> Option<String> {
    (age >= OLD_SECONDS && dead >= MANY).then(|| {
        format!("a transaction has been open for {age:.0} s, and the server must keep {dead} dead rows for it")
    })
}

impl QueryFragment<Pg> for DeadRowsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select coalesce(extract(epoch from now() - least(
        (select min(coalesce(xact_start, backend_start)) from pg_stat_activity
         where (backend_xmin is not null or backend_xid is not null) and pid <> pg_backend_pid()),
        (select min(prepared) from pg_prepared_xacts where database = current_database())
    )), 0)::float8,
    (select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_all_tables where schemaname = 'jobs' and relname in ('ready', 'finished'))"
        )
    }
}

native_query!(DeadRowsQuery -> (Double, BigInt));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_dead_rows_behind_an_old_snapshot_are_a_reason() {
        assert_eq!([reason((3600.0, 10)), reason((5.0, 10_000_000))], [None, None]);
        assert!(reason((90.0, 200_000)).is_some_and(|reason| reason.contains("90 s") && reason.contains("200000")));
    }
}
