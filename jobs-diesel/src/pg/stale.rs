//! Which errors say that a session has gone stale: it was opened before something changed, and a new session would not
//! have the error.
//!
//! Diesel passes on no SQLSTATE, and no list of these errors could be complete: plans of triggers keep types, objects
//! are looked up in a changed `search_path`, and a trigger may raise an error of its own because of a setting. So each
//! error of a statement may be one, except for those that are known to be others, and a new session shows whether it
//! is: it has the error as well, or has not ([`Suspicions`](super::suspicions::Suspicions)). If an error that is none
//! is not known as such, an attempt runs once more, and that is all.
//!
//! The error of a handler may hide the error of the statement. Then the text is read, and if it is not known either,
//! the session says whether a statement has failed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diesel::pg::FailedToLookupTypeError;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_jobs_core::JobError;

use crate::meaning::{Meaning, conflict, is_transient, statement};

/// What an error says about its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    /// Its server takes no writes: it was the primary, and is a standby now.
    Standby,
    /// It keeps what the database has no more, such as the plan of a statement whose result type has changed.
    Outdated,
    /// It does not find, may not use or cannot do what a new session perhaps would: the `search_path` may have been
    /// altered, or the role, or the types of a table. The mistake may also be the application's.
    Perhaps(Missing),
}

/// What a session does not find, may not use or cannot do. It is known by the hash of the words with which the server
/// names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing(u64);

impl Missing {
    pub(super) fn named(words: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        words.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// What a whole message is about. Its numbers may be those of a job.
    fn of(message: &str) -> Self {
        Self::named(&message.replace(|c: char| c.is_ascii_digit(), ""))
    }
}

/// Parts of the server's messages, and a second part that must follow. The first match counts.
const CERTAIN: [(&str, &str, Stale); 9] = [
    ("during recovery", "", Stale::Standby),
    ("recovery is in progress", "", Stale::Standby),
    ("cached plan must not change result type", "", Stale::Outdated),
    ("cache lookup failed for ", "", Stale::Outdated),
    ("could not open relation with OID", "", Stale::Outdated),
    ("relation with OID", "does not exist", Stale::Outdated),
    ("type with OID", "does not exist", Stale::Outdated),
    ("prepared statement \"", "does not exist", Stale::Outdated),
    ("prepared statement \"", "already exists", Stale::Outdated),
];

/// The same of messages that name what is missing: up to the second part, or else up to the end of the line.
const MISSING: [(&str, &str); 10] = [
    ("relation \"", "does not exist"),
    ("column ", "does not exist"),
    ("function ", "does not exist"),
    ("type \"", "does not exist"),
    ("schema \"", "does not exist"),
    ("operator does not exist", ""),
    ("unrecognized configuration parameter", ""),
    ("permission denied for ", ""),
    ("must be owner of ", ""),
    // This is a message of Diesel.
    ("Failed to find a type oid for ", ""),
];

/// Parts of the messages of errors that a new session would have as well, because the statement or its values are
/// wrong. A message that is missing here costs one run.
const ORDINARY: [&str; 10] = [
    "syntax error",
    "invalid input syntax",
    "value too long",
    "out of range",
    "division by zero",
    "violates unique constraint",
    "violates exclusion constraint",
    "violates foreign key constraint",
    "violates check constraint",
    "violates not-null constraint",
];

/// How PostgreSQL refuses a write in a transaction that is read-only.
const READ_ONLY: &str = "in a read-only transaction";

fn stale_in(text: &str) -> Option<Stale> {
    let says = |first: &str, then: &str| text.split_once(first).is_some_and(|(_, rest)| rest.contains(then));
    let certain = CERTAIN.iter().find(|(first, then, _)| says(first, then)).map(|(.., stale)| *stale);
    certain.or_else(|| missing_in(text).map(|words| Stale::Perhaps(Missing::named(words))))
}

/// The words that name what is missing. Of several matches the one that begins first counts: a column is named
/// together with its relation.
fn missing_in(text: &str) -> Option<&str> {
    let words = |(first, then): &(&str, &str)| {
        let from = text.find(first)?;
        let (_, rest) = text[from..].split_at(first.len());
        let length = if then.is_empty() { rest.lines().next().map_or(0, str::len) } else { rest.find(then)? };
        Some((from, from + first.len() + length))
    };
    let (from, to) = MISSING.iter().filter_map(words).min()?;
    Some(&text[from..to])
}

/// Whether a new session would have this error as well, or it is about something that passes by itself.
fn is_ordinary(text: &str) -> bool {
    ORDINARY.iter().any(|part| text.contains(part)) || text.contains(READ_ONLY) || is_transient(text)
}

/// What the error of one of the worker's own statements says, which may write by themselves.
pub(super) fn of_statement(error: &DieselError) -> Option<Stale> {
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _) => Some(Stale::Standby),
        DieselError::DatabaseError(kind, info) => stale_in(info.message()).or_else(|| {
            let may_be = *kind == DatabaseErrorKind::Unknown
                && !is_ordinary(info.message())
                && Meaning::of(error) != Meaning::Conflict
                && conflict::of_statement(error).is_none();
            may_be.then(|| Stale::Perhaps(Missing::of(info.message())))
        }),
        // The lookup has failed on the server, whose error Diesel drops.
        DieselError::SerializationError(problem) if problem.is::<FailedToLookupTypeError>() => {
            stale_in(&problem.to_string())
        }
        _ => None,
    }
}

/// What an error says that occurred in the transaction of a handler. This transaction has begun on a primary. `None`
/// also if the handler has decided itself what should follow.
pub(super) fn of_transaction(error: &JobError) -> Option<Stale> {
    if error.says_what_follows() {
        return None;
    }
    error.causes().find_map(|cause| match statement::of(cause) {
        Some(error) => of_end(error),
        // Another error may hide Diesel's error, and repeat its text.
        None => stale_in(&cause.to_string()).filter(|stale| *stale != Stale::Standby),
    })
}

/// Whether the error of a handler may hide that of a statement, and its text is not known. If the transaction is
/// aborted, a statement has failed in it.
pub(super) fn may_be_hidden(error: &JobError) -> bool {
    let says_nothing = |cause: &(dyn std::error::Error + 'static)| {
        let text = cause.to_string();
        statement::of(cause).is_none() && stale_in(&text).is_none() && !is_ordinary(&text)
    };
    !error.says_what_follows() && error.causes().all(says_nothing)
}

/// What an error says that hides the error of a statement.
pub(super) fn of_hidden(error: &JobError) -> Stale {
    Stale::Perhaps(Missing::of(&error.to_string()))
}

/// The same for the error of a statement with which the worker ends such a transaction.
pub(super) fn of_end(error: &DieselError) -> Option<Stale> {
    of_statement(error).filter(|stale| *stale != Stale::Standby)
}

/// Whether a transaction has refused a write because it is read-only.
pub(super) fn is_read_only(error: &DieselError) -> bool {
    matches!(error, DieselError::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))
}

/// Whether the transaction of a handler has refused a write for this reason.
pub(super) fn was_read_only(error: &JobError) -> bool {
    error.causes().any(|cause| match cause.downcast_ref::<DieselError>() {
        Some(error) => is_read_only(error),
        None => cause.to_string().contains(READ_ONLY),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: DatabaseErrorKind, text: &str) -> DieselError {
        DieselError::DatabaseError(kind, Box::new(text.to_owned()))
    }

    #[test]
    fn messages_of_stale_sessions_are_told_from_others() {
        let of = |text: &str| of_statement(&said(DatabaseErrorKind::Unknown, text));
        assert_eq!(of("cannot set transaction read-write mode during recovery"), Some(Stale::Standby));
        assert_eq!(of("cache lookup failed for type 16386"), Some(Stale::Outdated));
        assert_eq!(of("type with OID 16386 does not exist"), Some(Stale::Outdated));
        assert!(matches!(of("relation \"thing\" does not exist"), Some(Stale::Perhaps(_))));
        let duplicate = "duplicate key value violates unique constraint \"column does\"";
        assert_eq!(of_statement(&said(DatabaseErrorKind::UniqueViolation, duplicate)), None);
        assert!(matches!(of("Relation »thing« existiert nicht"), Some(Stale::Perhaps(_))));
        assert_eq!(of("storniere Anfrage wegen Zeitüberschreitung der Anfrage"), None, "a new session is not faster");
        let standby = said(DatabaseErrorKind::ReadOnlyTransaction, "INSERT kann nicht ausgeführt werden");
        assert_eq!(of_statement(&standby), Some(Stale::Standby));
        assert_eq!(of_transaction(&JobError::new(standby)), None, "it began as one that writes");
    }

    #[test]
    fn what_is_missing_is_known_by_its_name_however_the_error_is_wrapped() {
        let of = |text: &str| of_transaction(&JobError::new(said(DatabaseErrorKind::Unknown, text))).unwrap();
        let wrapped = |text: &str| of_transaction(&JobError::msg(text.to_owned())).unwrap();
        for (one, other) in [
            ("relation \"thing\" does not exist", "relation \"felt\" does not exist"),
            ("column \"a\" of relation \"thing\" does not exist", "relation \"thing\" does not exist"),
            ("function f(integer) does not exist", "function f(text) does not exist"),
            ("permission denied for table thing", "permission denied for table felt"),
            ("operator does not exist: a = b", "operator does not exist: a = c"),
        ] {
            assert_eq!(of(one), wrapped(&format!("the note of 12 ü: {one}\nand more")), "{one}");
            assert_ne!(of(one), of(other), "{one}");
        }
        assert_ne!(of("Relation »thing« existiert nicht"), of("Relation »felt« existiert nicht"));
    }

    #[test]
    fn the_decision_of_a_handler_counts() {
        let outdated = || JobError::new(said(DatabaseErrorKind::Unknown, "cached plan must not change result type"));
        assert_eq!(of_transaction(&outdated()), Some(Stale::Outdated));
        assert_eq!(of_transaction(&JobError::msg(format!("the note: {}", outdated()))), Some(Stale::Outdated));
        assert_eq!(of_transaction(&outdated().fatal()), None);
        assert_eq!(of_transaction(&JobError::msg("customer 12 does not exist")), None);
    }
}
