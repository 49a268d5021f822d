//! What the server said when it ended a connection. It says so unasked, while nobody waits for an answer (a session was idle in its
//! transaction for too long, an administrator ended it), and whoever asks next hears only that the connection is closed.

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::PoolableConnection as _;
use futures_util::{FutureExt as _, StreamExt as _};

/// Its text, if this connection was ended with one that nobody has heard yet.
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

/// The error of a statement that found its connection closed, with the reason.
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
