//! Whether two connections share sessions of the server. A pooler in transaction mode lends the same few sessions to
//! all clients. What one client leaves in a session with `listen` or `set` affects the next client.
//!
//! It takes no locks and reads no tables. It takes six round trips. It runs once per storage, and once for each
//! connection that is to listen.

use std::time::Duration;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{Integer, Text};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager as _};
use tokio::time::timeout;

use crate::meaning::ANOTHER_STATEMENT;
use crate::native::{cached_by_text, sql};

/// Asks for the server process that runs this statement. The text has the mark, so no other connection prepares the
/// same, and an answer without the mark is that of another statement.
struct SessionQuery<'a> {
    mark: &'a str,
}

cached_by_text!(SessionQuery<'a> -> (Integer, Text));

impl QueryFragment<Pg> for SessionQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "select pg_backend_pid(), '" (self.mark) "'::text")
    }
}

/// A connection, and a statement that only this connection has prepared.
struct Client<'c> {
    conn: &'c mut AsyncPgConnection,
    mark: String,
}

impl<'c> Client<'c> {
    fn new(conn: &'c mut AsyncPgConnection) -> Self {
        Self { conn, mark: format!("{:016x}", rand::random::<u64>()) }
    }

    /// The server process of the session that the connection has now.
    ///
    /// A pooler that does not support prepared statements may lend a session in which the statement is missing, or is
    /// another one. Both are errors that mean `MixedUp`.
    async fn session(&mut self) -> QueryResult<i32> {
        match RunQueryDsl::get_result::<(i32, String)>(SessionQuery { mark: &self.mark }, self.conn).await {
            Ok((process, mark)) if mark == self.mark => Ok(process),
            Err(error) if !is_of_another(&error) => Err(error),
            _ => Err(DieselError::DatabaseError(DatabaseErrorKind::Unknown, Box::new(ANOTHER_STATEMENT.to_owned()))),
        }
    }
}

/// Whether the answer was to a statement with other columns, or with no row.
fn is_of_another(error: &DieselError) -> bool {
    match error {
        DieselError::NotFound | DieselError::DeserializationError(_) => true,
        // What tokio-postgres says if the number of columns is another one.
        DieselError::DatabaseError(_, info) => info.message() == "error parsing response from server",
        _ => false,
    }
}

/// Whether a pooler between these connections and the server makes them share sessions.
///
/// Each connection is asked three times. The order detects a pooler that lends the session that was used last, and also
/// one that lends the session that has been idle longest. On a busy pooler the sessions change all the time anyway.
pub(crate) async fn are_shared(one: &mut AsyncPgConnection, other: &mut AsyncPgConnection) -> QueryResult<bool> {
    let (mut one, mut other) = (Client::new(one), Client::new(other));
    let (first, second) = (one.session().await?, other.session().await?);
    let again = [other.session().await?, one.session().await?, one.session().await?, other.session().await?];
    Ok(first == second || again != [second, first, first, second])
}

/// Whether the pooler between these connections lends a session that lacks what a connection has prepared. If so, the
/// error means `MixedUp`.
///
/// A transaction of the one holds the session in which the other has prepared its statement. The other gets another
/// session, unless the pooler happened to lend the transaction another one. So it is tried several times.
/// If there is only one session, the other waits for it for this time.
pub(crate) async fn keep_statements(
    one: &mut AsyncPgConnection,
    other: &mut AsyncPgConnection,
    limit: Duration,
) -> QueryResult<()> {
    let mut other = Client::new(other);
    for _ in 0..5 {
        other.session().await?;
        AnsiTransactionManager::begin_transaction(one).await?;
        let asked = timeout(limit, other.session()).await;
        AnsiTransactionManager::rollback_transaction(one).await?;
        match asked {
            Ok(answer) => drop(answer?),
            Err(_) => break,
        }
    }
    Ok(())
}
