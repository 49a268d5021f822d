//! The message of a server that ended a connection. The server sends it while no statement is running: a session was
//! idle in its transaction for too long, or an administrator ended it. The next statement learns only that the
//! connection is closed.

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::PoolableConnection as _;
use futures_util::{FutureExt as _, StreamExt as _};

/// The text of that message, if the server ended this connection and the message was not read yet.
pub(crate) fn of(conn: &mut AsyncPgConnection) -> Option<String> {
    if !conn.is_broken() {
        return None;
    }
    let mut unasked = std::pin::pin!(conn.notifications_stream());
    while let Some(Some(said)) = unasked.next().now_or_never() {
        if let Err(DieselError::DatabaseError(_, info)) = said {
            return Some(info.message().to_owned());
        }
    }
    None
}

/// Adds the reason to the error of a statement that found its connection closed.
pub(crate) fn added_to(error: DieselError, conn: &mut AsyncPgConnection) -> DieselError {
    let DieselError::DatabaseError(
        kind @ (DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand),
        info,
    ) = error
    else {
        return error;
    };
    match of(conn) {
        Some(word) => DieselError::DatabaseError(kind, Box::new(format!("{}: {word}", info.message()))),
        None => DieselError::DatabaseError(kind, info),
    }
}
