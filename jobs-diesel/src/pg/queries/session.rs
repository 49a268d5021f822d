//! Whether two connections share sessions of the server. A pooler in transaction mode lends the same few sessions to
//! all clients. What one client leaves in a session with `listen` or `set` affects the next client.
//!
//! It takes no locks and reads no tables. It takes six round trips. It runs once per storage, and once for each
//! connection that is to listen.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

diesel::define_sql_function! {
    /// The server process that runs this statement.
    fn pg_backend_pid() -> Integer;
}

async fn session(conn: &mut AsyncPgConnection) -> QueryResult<i32> {
    diesel::select(pg_backend_pid()).get_result(conn).await
}

/// Whether a pooler between these connections and the server makes them share sessions.
///
/// Each connection is asked three times. The order detects a pooler that lends the session that was used last, and also
/// one that lends the session that has been idle longest. On a busy pooler the sessions change all the time anyway.
pub(crate) async fn are_shared(one: &mut AsyncPgConnection, other: &mut AsyncPgConnection) -> QueryResult<bool> {
    let (first, second) = (session(one).await?, session(other).await?);
    let again = [session(other).await?, session(one).await?, session(one).await?, session(other).await?];
    Ok(first == second || again != [second, first, first, second])
}
