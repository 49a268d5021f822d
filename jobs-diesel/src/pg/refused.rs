//! What is done when the database refuses a statement because of what is in some row: the row is set apart, and the statement
//! tried once more. No single row may stop a queue.

use diesel::result::{DatabaseErrorKind, Error};
use diesel_async::RunQueryDsl;
use jobs_core::StorageError;
use jobs_core::storage::StorageResult;

use super::queries::set_apart::{SetFinishedApart, SetWaitingApart};
use super::{PgStorage, run};

type Row = (i64, String, String);

/// Whether it may be a row's fault: a key that is there already, or a number out of its range, which has no kind of its own.
pub(super) fn may_be_a_rows(error: &StorageError) -> bool {
    let StorageError::Refused(source) = error else { return false };
    match source.downcast_ref() {
        Some(Error::DatabaseError(DatabaseErrorKind::UniqueViolation | DatabaseErrorKind::CheckViolation, _)) => true,
        Some(Error::DatabaseError(DatabaseErrorKind::Unknown, what)) => what.message().contains("out of range"),
        _ => false,
    }
}

impl PgStorage {
    /// Sets waiting rows apart that no claim can move. `false`: there are none.
    pub(super) async fn set_waiting_apart(&self) -> StorageResult<bool> {
        let gone: Vec<Row> = run!(self, "set_apart", conn => SetWaitingApart.load(conn))?;
        Ok(tell(&gone))
    }

    /// Sets history apart that has the id of a running job. `false`: there is none.
    pub(super) async fn set_finished_apart(&self) -> StorageResult<bool> {
        let gone: Vec<Row> = run!(self, "set_apart", conn => SetFinishedApart.load(conn))?;
        Ok(tell(&gone))
    }
}

fn tell(gone: &[Row]) -> bool {
    for (id, kind, reason) in gone {
        tracing::error!(job.id = id, job.kind = kind, reason, "a job was set apart in jobs.dead_letter");
    }
    !gone.is_empty()
}
