//! `blocked` (feature `testing`): a session that waits for a lock of this one's transaction. It reads the server's lock
//! table, and takes no lock on rows.

use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};

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
    pub(crate) pid: i32,
    #[diesel(sql_type = Text)]
    pub(crate) query: String,
}
