//! Whether two connections share sessions of the server. A pooler in transaction mode lends the same few sessions to
//! all clients. What one client leaves in a session with `listen` or `set` affects the next client.
//!
//! It takes no locks and reads no tables. It takes six round trips. It runs once per storage, and once for each
//! connection that is to listen.

use std::time::Duration;

use diesel::prelude::*;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager as _};
use tokio::time::timeout;

use crate::meaning::Meaning;

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

/// Whether the pooler between these connections lends a session that lacks what a connection has prepared.
///
/// A transaction of the one holds the session in which the other has prepared its statement. The other gets another
/// session, unless the pooler happened to lend the transaction another one. So it is tried several times.
/// If there is only one session, the other waits for it, and the answer after this time is `false`.
pub(crate) async fn lack_statements(
    one: &mut AsyncPgConnection,
    other: &mut AsyncPgConnection,
    limit: Duration,
) -> QueryResult<bool> {
    for _ in 0..5 {
        session(other).await?;
        AnsiTransactionManager::begin_transaction(one).await?;
        session(one).await?;
        let asked = timeout(limit, session(other)).await;
        AnsiTransactionManager::rollback_transaction(one).await?;
        match asked {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if Meaning::of(&error) == Meaning::MixedUp => return Ok(true),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Ok(false),
        }
    }
    Ok(false)
}
