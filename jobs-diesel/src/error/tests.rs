use diesel::result::DatabaseErrorKind;

use super::*;

/// The error and its causes, as most programs print them.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn a_chain_of_causes_contains_the_message_once() {
    let error_with = |text: &str| DieselError::DatabaseError(DatabaseErrorKind::Unknown, Box::new(text.to_owned()));
    let failed = MigrateError::Failed { version: 1, name: "jobs", error: error_with("it broke") };
    let errors: [&dyn std::error::Error; 8] = [
        &EnqueueError::from(error_with("it broke")),
        &EnqueueError::from(error_with("no such table: jobs_it broke")),
        &CompleteError::from(error_with("it broke")),
        &MigrateError::from(error_with("it broke")),
        &failed,
        &storage_error(error_with("it broke")),
        &storage_error(error_with("connection closed: it broke")),
        &diesel_jobs_core::WorkerError::from(storage_error(error_with("it broke"))),
    ];
    for error in errors {
        assert_eq!(chain(error).matches("it broke").count(), 1, "{}", chain(error));
    }
}

#[test]
fn only_what_another_transaction_has_caused_is_to_be_repeated() {
    let of = |kind, text: &str| EnqueueError::from(DieselError::DatabaseError(kind, Box::new(text.to_owned())));
    for (kind, text) in [
        (DatabaseErrorKind::SerializationFailure, "konnte Zugriff nicht serialisieren"),
        (DatabaseErrorKind::Unknown, "deadlock detected"),
        (DatabaseErrorKind::Unknown, "database is locked"),
        (DatabaseErrorKind::Unknown, "canceling statement due to lock timeout"),
        (DatabaseErrorKind::Unknown, "storniere Anfrage wegen Zeitüberschreitung einer Sperre"),
    ] {
        let error = of(kind, text);
        assert!(error.is_retryable() && error.to_string().contains("repeat all of it"), "{error}");
    }
    for (kind, text) in [
        (DatabaseErrorKind::UniqueViolation, "duplicate key value violates unique constraint \"ready_pkey\""),
        (DatabaseErrorKind::ClosedConnection, "server closed the connection unexpectedly"),
        (DatabaseErrorKind::Unknown, "current transaction is aborted, commands ignored until end of transaction block"),
        (DatabaseErrorKind::Unknown, "no such table: jobs_job"),
    ] {
        let error = of(kind, text);
        assert!(!error.is_retryable() && !error.to_string().contains("repeat"), "{error}");
    }
}

#[test]
fn the_error_of_a_standby_names_the_url_parameter() {
    let text = Box::new("cannot execute INSERT in a read-only transaction".to_owned());
    let error = storage_error(DieselError::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, text));
    assert!(matches!(error, StorageError::Refused(_)));
    assert!(error.to_string().contains("read-only transaction; this server takes no writes"), "{error}");
    assert!(error.to_string().contains("target_session_attrs=read-write"), "{error}");
}
