//! Which errors of PostgreSQL are conflicts with another transaction. After such an error the same attempt may succeed
//! at once.

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_jobs_core::JobError;

use super::lock::is_about_a_lock;
use super::{is_deadlock, statement};

/// Parts of the server's messages in English, which also recognize an error that only repeats the message.
const TEXTS: [(&str, &str); 2] = [("could not serialize access", SERIALIZATION), ("deadlock detected", DEADLOCK)];

const SERIALIZATION: &str = "a serialization failure (40001)";
const DEADLOCK: &str = "a deadlock (40P01)";
pub(crate) const LOCK: &str = "a lock that was not available (55P03)";

/// The conflict that a message of the server describes.
fn conflict_in(text: &str) -> Option<&'static str> {
    let known = TEXTS.iter().find(|(part, _)| text.contains(part)).map(|(_, what)| *what);
    known.or_else(|| is_about_a_lock(text).then_some(LOCK))
}

/// The conflict that made one of our own statements fail. `None` if the error is not a conflict.
pub(crate) fn of_statement(error: &DieselError) -> Option<&'static str> {
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Some(SERIALIZATION),
        DieselError::DatabaseError(_, info) if is_deadlock(&**info) => Some(DEADLOCK),
        DieselError::DatabaseError(_, info) => conflict_in(info.message()),
        DieselError::RollbackErrorOnCommit { commit_error, .. } => of_statement(commit_error),
        _ => None,
    }
}

/// The conflict that made a statement of a handler fail, if the handler returned that error. `None` if the error is not
/// a conflict, or if the handler has decided itself what should follow.
pub(crate) fn of_handler(error: &JobError) -> Option<&'static str> {
    if error.says_what_follows() {
        return None;
    }
    error.causes().find_map(|cause| match statement::of(cause) {
        Some(error) => of_statement(error),
        // A transparent error hides Diesel's error, but repeats its text.
        None => conflict_in(&cause.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EnqueueError;

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Transparent(DieselError);

    fn refused(kind: DatabaseErrorKind, text: &str) -> DieselError {
        DieselError::DatabaseError(kind, Box::new(text.to_owned()))
    }

    #[test]
    fn a_conflict_is_found_behind_the_handlers_own_error() {
        let deadlock = || refused(DatabaseErrorKind::Unknown, "deadlock detected");
        assert_eq!(of_handler(&JobError::new(deadlock())), Some("a deadlock (40P01)"));
        assert_eq!(of_handler(&JobError::new(Transparent(deadlock()))), Some("a deadlock (40P01)"));
        let translated = refused(DatabaseErrorKind::SerializationFailure, "konnte Zugriff nicht serialisieren");
        let behind = JobError::new(translated).noted("while booking");
        assert_eq!(of_handler(&behind), Some(SERIALIZATION));
        let translated = refused(DatabaseErrorKind::SerializationFailure, "konnte Zugriff nicht serialisieren");
        assert_eq!(of_handler(&JobError::new(EnqueueError::from(translated))), Some(SERIALIZATION));
        assert_eq!(of_handler(&JobError::new(refused(DatabaseErrorKind::UniqueViolation, "duplicate key"))), None);
    }

    #[test]
    fn a_lock_that_is_not_available_is_known_in_other_languages() {
        for text in [
            "не удалось получить блокировку строки в таблице \"x\"",
            "annulation de la requête à cause du délai écoulé pour l'obtention des verrous",
            "无法在关系 \"x\" 上获得锁",
            "无法获取关系 \"x\" 中行的锁",
            "無法取得關聯 \"x\" 的鎖定",
            "no se pudo bloquear un “lock” en la fila de la relación «x»",
            "cancelando la sentencia debido a que se agotó el tiempo de espera de “locks”",
            "tidak mendapatkan kunci pada baris relasi « x »",
            "pembatalan perintah karena kunci kehabisan waktu tunggu",
            "nie można nałożyć blokady na rekord w relacji \"x\"",
            "anulowano polecenie z powodu przekroczenia czasu blokady",
            "não foi possível obter bloqueio na linha da relação \"x\"",
            "cancelando comando por causa do tempo de espera (timeout) do bloqueio",
            "\"x\" tablosundaki satır için lock alınamadı",
            "\"x\" tablosu için kilit alınamadı",
        ] {
            assert_eq!(of_statement(&refused(DatabaseErrorKind::Unknown, text)), Some(LOCK), "{text}");
        }
        let other = refused(DatabaseErrorKind::Unknown, "relation « verrous » n'existe pas");
        assert_eq!(of_statement(&other), None);
    }

    #[test]
    fn a_handler_that_decided_is_not_run_again() {
        let lock =
            || JobError::new(refused(DatabaseErrorKind::Unknown, "could not obtain lock on row in relation \"x\""));
        assert_eq!(of_handler(&lock()), Some(LOCK));
        assert_eq!(of_handler(&lock().fatal()), None);
        assert_eq!(of_handler(&lock().retry_in(std::time::Duration::from_secs(9))), None);
    }
}
