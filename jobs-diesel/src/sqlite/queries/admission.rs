//! A part of `admit`: what it does for all sorts of limits. It nudges keys, takes paused jobs out of the order of admission, and makes jobs available.

use std::collections::BTreeSet;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_jobs_core::{Failure, FailureKind, JobId, Retention};

use crate::sqlite::queries::act::end_as_discarded;
use crate::sqlite::queries::keys::{Key, MOST_AHEAD, PAUSED};

/// What a pass has done.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) admitted: usize,
    pub(super) refused: usize,
    pub(super) more: bool,
    /// The lanes that it checks after the keys.
    pub(super) lanes: BTreeSet<String>,
}

impl Pass {
    /// Counts the jobs that a pass tried to admit. The database has refused those that have not started.
    pub(super) fn count(&mut self, jobs: usize, started: usize) {
        self.admitted += started;
        self.refused += jobs - started;
    }
}

/// Takes paused jobs at the front of the key out of the order of admission. Returns whether there were some: there may be more.
pub(super) fn set_paused_aside(conn: &mut SqliteConnection, key: &Key, in_order: &str) -> QueryResult<bool> {
    let paused = format!(
        "update jobs_job set held_back = 2 where id in (
             select id from (select id, queue, kind {in_order} limit {MOST_AHEAD}) where {PAUSED}
         )"
    );
    let aside = sql_query(paused).bind::<Text, _>(&key.limit_name).bind::<Text, _>(&key.limit_key).execute(conn)?;
    Ok(aside > 0)
}

pub(super) fn nudge(conn: &mut SqliteConnection, key: &Key) -> QueryResult<()> {
    sql_query("insert into jobs_nudge (limit_name, limit_key) values (?1, ?2)")
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)
        .map(drop)
}

/// Makes these jobs available with `start`. A job that the database refuses is discarded, so that it does not stop the others.
/// Returns how many are available.
pub(super) fn start_all(
    conn: &mut SqliteConnection,
    ids: &[JobId],
    start: impl Fn(&mut SqliteConnection, JobId) -> QueryResult<()>,
) -> QueryResult<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    let at_once = conn.transaction(|conn| ids.iter().try_for_each(|id| start(conn, *id)));
    match at_once {
        Ok(()) => return Ok(ids.len()),
        Err(error) if !is_refusal(&error) => return Err(error),
        Err(_) => {}
    }
    let mut started = 0;
    for &id in ids {
        match conn.transaction(|conn| start(conn, id)) {
            Ok(()) => started += 1,
            Err(error) if is_refusal(&error) => refuse(conn, id, &error)?,
            Err(error) => return Err(error),
        }
    }
    Ok(started)
}

/// Parts of the messages of SQLite that are not about a row. Diesel has no error kinds for these, nor for what a trigger raises.
const NOT_ABOUT_A_ROW: [&str; 7] =
    ["locked", "disk", "interrupted", "out of memory", "readonly", "malformed", "no such"];

/// Whether a constraint or a trigger of the application refuses a row.
fn is_refusal(error: &Error) -> bool {
    use DatabaseErrorKind::{CheckViolation, ForeignKeyViolation, NotNullViolation, UniqueViolation, Unknown};
    match error {
        Error::DatabaseError(CheckViolation | ForeignKeyViolation | NotNullViolation | UniqueViolation, _) => true,
        Error::DatabaseError(Unknown, what) => !NOT_ABOUT_A_ROW.iter().any(|text| what.message().contains(text)),
        _ => false,
    }
}

/// Discards the job. If this is refused, too, the job stays, and the next pass tries it again.
fn refuse(conn: &mut SqliteConnection, id: JobId, error: &Error) -> QueryResult<()> {
    let failure = Failure::new(FailureKind::Error, &format!("the database refused to make it available: {error}"));
    match conn.transaction(|conn| end_as_discarded(conn, id, &failure, None, Retention::default().discarded)) {
        Err(error) if is_refusal(&error) => {
            tracing::warn!(target: "diesel_jobs", { job.id = id.0, %error }, "a held job can neither start nor be discarded");
            Ok(())
        }
        other => other,
    }
}
