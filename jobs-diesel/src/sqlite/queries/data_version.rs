//! `data_version`: a number that changes when another connection, of any process, has committed.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::Integer;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Integer)]
    data_version: i32,
}

pub(crate) fn data_version(conn: &mut SqliteConnection) -> QueryResult<i32> {
    diesel::sql_query("pragma data_version").get_result::<Row>(conn).map(|row| row.data_version)
}
