//! What an error of the database means. Three decisions are beside the statements that they are about: whether a
//! session is stale (`pg/stale.rs`), whether a transaction's end was refused (`pg/transact/end.rs`), and whether SQLite
//! refuses to admit a job (`sqlite/queries/admission.rs`).
//!
//! Diesel passes on neither the SQLSTATE of an error nor the routine that raised it. So an error is recognized by its
//! kind, by the names of constraints, tables and statements, and by the parts that it has (a detail, a position), none
//! of which a server translates. Texts decide only where nothing else does. A worker's sessions get untranslated
//! messages where their role may set that (`pg/language.rs`), and SQLite does not translate any.

#[cfg(feature = "postgres")]
pub(crate) mod conflict;
mod lock;
mod names;
#[cfg(feature = "postgres")]
pub(crate) mod row;
#[cfg(feature = "postgres")]
pub(crate) mod statement;
#[cfg(test)]
mod tests;
mod transient;

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error};

use self::lock::is_about_a_lock;
use self::names::{Name, names};
pub(crate) use self::transient::is_transient;

/// What an error means, for the one who is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Another transaction got in the way. The same transaction may succeed if all of it is repeated.
    Conflict,
    /// The same statement may succeed later.
    Transient,
    /// The tables of `diesel-jobs` are missing.
    NoTables,
    /// The role lacks a privilege.
    NoPrivilege,
    /// This server takes no writes.
    ReadOnly,
    /// Another connection holds the lock of the SQLite file, or has written since this transaction began to read.
    /// SQLite says the same of both, and Diesel passes on no more.
    Locked,
    /// The statement was prepared in another session.
    MixedUp,
    /// Anything else.
    Other,
}

impl Meaning {
    pub(crate) fn of(error: &Error) -> Self {
        use DatabaseErrorKind::{
            ClosedConnection, ReadOnlyTransaction, SerializationFailure, UnableToSendCommand, Unknown,
        };
        match error {
            Error::BrokenTransactionManager | Error::RollbackErrorOnCommit { .. } => Self::Transient,
            Error::DatabaseError(SerializationFailure, _) => Self::Conflict,
            Error::DatabaseError(ClosedConnection | UnableToSendCommand, _) => Self::Transient,
            Error::DatabaseError(ReadOnlyTransaction, _) => Self::ReadOnly,
            Error::DatabaseError(Unknown, info) => Self::of_unknown(&**info),
            _ => Self::Other,
        }
    }

    /// Diesel has no kind for these errors.
    fn of_unknown(info: &dyn DatabaseErrorInformation) -> Self {
        let text = info.message();
        if text == "database is locked" {
            Self::Locked
        } else if is_missing_table(info) {
            Self::NoTables
        } else if is_deadlock(info) {
            Self::Conflict
        } else if is_transient(text) {
            Self::Transient
        } else if lacks_privilege(info) {
            Self::NoPrivilege
        } else if is_mixed_up(info) {
            Self::MixedUp
        } else {
            Self::Other
        }
    }
}

/// Whether a statement has waited for a lock for as long as the session lets it. What SQLite says of a lock has a
/// [meaning](Meaning::Locked) of its own.
pub(crate) fn has_waited_for_a_lock(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(_, info) if is_about_a_lock(info.message()))
}

/// Whether another transaction got in the way, so that all of this one may succeed if it is repeated.
pub(crate) fn is_retryable(error: &Error) -> bool {
    has_waited_for_a_lock(error) || matches!(Meaning::of(error), Meaning::Conflict | Meaning::Locked)
}

/// A statement that names a table or a function in a schema that is missing has a position. `jobs.ready` is in
/// quotation marks in every language. A missing function is not quoted, and has a hint.
fn is_missing_table(info: &dyn DatabaseErrorInformation) -> bool {
    let text = info.message();
    let is_ours = |name: &Name<'_>| name.is_quoted && (name.text == "jobs" || name.text.starts_with("jobs."));
    text.starts_with("no such table: jobs_")
        || info.statement_position().is_some() && info.hint().is_none() && names(text).iter().any(is_ours)
}

/// The beginnings of the message in languages without other letters than those of English.
const PERMISSION_DENIED: [&str; 4] =
    ["permission denied for ", "permiso denegado ", "permesso negato ", "ijin ditolak untuk "];

/// The tables, the sequence and the function that a statement without privileges meets first.
const MET_FIRST: [&str; 9] =
    ["ready", "held", "running", "finished", "worker", "nudge", "job_id", "schema_migration", "installation"];

/// A missing privilege names the schema, or an object without its schema, and puts neither in quotation marks. Only the
/// schema is named together with a position.
fn lacks_privilege(info: &dyn DatabaseErrorInformation) -> bool {
    let text = info.message();
    if PERMISSION_DENIED.iter().any(|beginning| text.starts_with(beginning)) {
        return true;
    }
    let is_object = |name: &str| MET_FIRST.contains(&name) || name.starts_with("enqueue_unique");
    let is_ours = |name: &Name<'_>| {
        !name.is_quoted
            && match info.statement_position() {
                Some(_) => name.text == "jobs",
                // An English sentence may contain such words.
                None => !text.is_ascii() && is_object(name.text),
            }
    };
    info.details().is_none() && info.hint().is_none() && names(text).iter().any(is_ours)
}

/// What is said of a session in which another client has prepared something else under the same name.
pub(crate) const ANOTHER_STATEMENT: &str = "a session executed what another client has prepared in it";

/// The names that diesel-async and Diesel give to prepared statements. Such a statement does not exist, exists already,
/// or takes other values.
fn is_mixed_up(info: &dyn DatabaseErrorInformation) -> bool {
    let is_statement = |name: &Name<'_>| {
        let number = name.text.strip_prefix("__diesel_stmt_").or_else(|| name.text.strip_prefix('s'));
        name.is_quoted && number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let text = info.message();
    text == ANOTHER_STATEMENT || info.statement_position().is_none() && names(text).iter().any(is_statement)
}

/// The lines of the detail of a deadlock: each names a process that waits, and the lock it waits for. The names of
/// locks are not translated.
fn is_deadlock(info: &dyn DatabaseErrorInformation) -> bool {
    const LOCKS: [&str; 4] = ["ShareLock", "ExclusiveLock", "AccessShareLock", "RowShareLock"];
    let waits = |line: &str| {
        line.bytes().any(|byte| byte.is_ascii_digit())
            && names(line).iter().any(|name| LOCKS.iter().any(|lock| name.text.ends_with(lock)))
    };
    info.message().contains("deadlock detected")
        || info.details().is_some_and(|details| details.lines().count() > 1 && details.lines().all(waits))
}

/// Whether the connection is closed. A statement that begins a transaction may then be sent on another one: it is
/// either answered by the server or not answered at all.
#[cfg(feature = "postgres")]
pub(crate) fn is_closed(error: &Error) -> bool {
    use DatabaseErrorKind::{ClosedConnection, UnableToSendCommand};
    match error {
        Error::DatabaseError(ClosedConnection | UnableToSendCommand, _) => true,
        Error::DatabaseError(_, info) => info.message().starts_with("terminating connection"),
        Error::BrokenTransactionManager => true,
        _ => false,
    }
}
