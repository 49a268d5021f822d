//! Whether a server has ended the session with the error of a statement. Diesel passes on neither the code nor the
//! severity of the error, and a server translates its message. So the session is asked: one that has ended answers
//! nothing.

use diesel::QueryResult;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};

use crate::meaning::{Meaning, is_closed};

/// The answer to one of the worker's own statements. An error whose meaning is not known is one of a closed connection
/// if the server has closed it.
pub(super) async fn told<T>(answer: QueryResult<T>, conn: &mut AsyncPgConnection) -> QueryResult<T> {
    let Err(error) = answer else { return answer };
    let is_unknown = matches!(error, DieselError::DatabaseError(DatabaseErrorKind::Unknown, _));
    let is_ended = is_unknown
        && Meaning::of(&error) == Meaning::Other
        && conn.batch_execute("select").await.is_err_and(|asked| is_closed(&asked));
    match error {
        DieselError::DatabaseError(_, info) if is_ended => {
            Err(DieselError::DatabaseError(DatabaseErrorKind::ClosedConnection, info))
        }
        error => Err(error),
    }
}
