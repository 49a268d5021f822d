//! `data_version`: a number that changes when another connection, of any process, has committed.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Integer;
use diesel::sqlite::Sqlite;

/// Diesel caches the prepared statement by this type. It runs a hundred times per second.
#[derive(QueryId)]
struct DataVersion;

impl QueryFragment<Sqlite> for DataVersion {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("pragma data_version");
        Ok(())
    }
}

impl Query for DataVersion {
    type SqlType = Integer;
}

impl<C> RunQueryDsl<C> for DataVersion {}

pub(crate) fn data_version(conn: &mut SqliteConnection) -> QueryResult<i32> {
    DataVersion.get_result(conn)
}
