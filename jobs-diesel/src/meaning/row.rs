//! Whether the content of a row made a statement fail.

use diesel::result::{DatabaseErrorKind, Error};
use diesel_jobs_core::StorageError;

/// The constraint that a finish violates if an earlier job with the same id has ended.
const FINISHED_KEY: &str = "finished_pkey";

/// Whether a row may be the cause: a duplicate key, a value that a constraint forbids, or an error that is none of
/// those that are known. Diesel has no kind for a number out of range, for the name of a queue that is too long for a
/// notification, and for what a trigger raises. Only rows that are found to be a cause are set apart.
pub(crate) fn may_be_the_cause(error: &StorageError) -> bool {
    use DatabaseErrorKind::{CheckViolation, NotNullViolation, UniqueViolation, Unknown};
    let StorageError::Refused(source) = error else { return false };
    let error = source.downcast_ref();
    matches!(error, Some(Error::DatabaseError(UniqueViolation | CheckViolation | NotNullViolation | Unknown, _)))
}

/// Whether the server has answered with this error, even with one that may pass: its session is alive.
pub(crate) fn is_answer(error: &StorageError) -> bool {
    match error {
        StorageError::Unavailable(source) => source
            .downcast_ref()
            .is_some_and(|error: &Error| matches!(error, Error::DatabaseError(..)) && !super::is_closed(error)),
        StorageError::Credentials(_) => false,
        _ => true,
    }
}

/// Whether the reason is known, and no row has it: a missing right, a server that takes no writes, or a session that
/// another client has used. A trigger of the application may lack a right, too.
pub(crate) fn is_general(error: &StorageError) -> bool {
    matches!(error, StorageError::Refused(source) if !source.is::<Error>())
}

/// Whether one of our finishes failed because an earlier job with the same id has ended.
pub(crate) fn is_history(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(DatabaseErrorKind::UniqueViolation, what) if what.constraint_name() == Some(FINISHED_KEY))
}

/// Whether the message of a failed attempt names that constraint.
pub(crate) fn names_history(message: &str) -> bool {
    message.contains(FINISHED_KEY)
}
