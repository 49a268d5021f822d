//! `blocked` (feature `testing`): a session that waits for a lock of this one's transaction. It reads the server's lock table,
//! and takes no lock on rows.

use diesel::QueryResult;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};

use crate::testing::blocked::Blocked;

/// The row has the type [`Row`].
pub(crate) fn session() -> diesel::query_builder::SqlQuery {
    diesel::sql_query(
        "select pid, left(query, 200) as query from pg_stat_activity
         where wait_event_type = 'Lock' and pg_backend_pid() = any(pg_blocking_pids(pid)) order by pid limit 1",
    )
}

#[derive(QueryableByName)]
pub(crate) struct Row {
    #[diesel(sql_type = Integer)]
    pid: i32,
    #[diesel(sql_type = Text)]
    query: String,
}

pub(crate) fn found(row: QueryResult<Option<Row>>) -> Blocked {
    match row {
        Ok(Some(Row { pid, query })) => Blocked::Session(format!("Session {pid} with the statement `{query}`")),
        Ok(None) => Blocked::None,
        // The transaction may be aborted, for example.
        Err(_) => Blocked::Unknown,
    }
}
