//! Whose is a connection's session at the server? A pooler in transaction mode lends the same few sessions to everybody, and
//! what is left in one by `listen` or `set` is the next one's.
//!
//! It takes no locks and reads no tables. Asked once for each connection that would listen: six round trips.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

diesel::define_sql_function! {
    /// The server process that runs this statement.
    fn pg_backend_pid() -> Integer;
}

async fn session(conn: &mut AsyncPgConnection) -> QueryResult<i32> {
    diesel::select(pg_backend_pid()).get_result(conn).await
}

/// Whether somebody between these connections and the server has them share sessions.
///
/// Each is asked three times, in an order in which they meet whether the session that was used last is lent next or the one
/// that has rested longest; on a busy pooler they change all the time anyway.
pub(crate) async fn are_shared(one: &mut AsyncPgConnection, other: &mut AsyncPgConnection) -> QueryResult<bool> {
    let (first, second) = (session(one).await?, session(other).await?);
    let again = [session(other).await?, session(one).await?, session(one).await?, session(other).await?];
    Ok(first == second || again != [second, first, first, second])
}
