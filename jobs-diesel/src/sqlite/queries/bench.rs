//! `worker bench`: what only its measurements need.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;

/// A table to commit to.
pub(crate) const PREPARE: &str = "create table jobs_bench_committed (number integer) strict";

/// As cheap as an answer can be.
pub(crate) const NOTHING: &str = "select 1";

/// A commit of one row.
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
