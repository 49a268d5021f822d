//! Statements that only `worker bench` needs.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;

/// Creates the table that [`COMMIT`] writes to.
pub(crate) const PREPARE: &str = "create table jobs_bench_committed (number integer) strict";

/// The cheapest statement that returns a row.
pub(crate) const NOTHING: &str = "select 1";

/// Inserts one row. Outside of a transaction this is one commit.
pub(crate) const COMMIT: &str = "insert into jobs_bench_committed values (1)";

#[derive(QueryableByName)]
struct Version {
    #[diesel(sql_type = Text)]
    version: String,
}

/// The version of the SQLite that is compiled in.
pub(crate) fn version(conn: &mut SqliteConnection) -> QueryResult<String> {
    diesel::sql_query("select sqlite_version() as version").get_result::<Version>(conn).map(|row| row.version)
}
