//! A part of `admit`: what it does for all sorts of limits. It nudges keys, takes paused jobs out of the order of
//! admission, and makes jobs available.

use std::collections::BTreeSet;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_jobs_core::flags::{RATE, SEVERAL};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobRule, Retention};

use crate::sqlite::queries::act::end_as_discarded;
use crate::sqlite::queries::admission_failure::put_off;
use crate::sqlite::queries::keys::{Key, MOST_AHEAD, PAUSED};
use crate::sqlite::queries::rate;

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
    pub(super) fn count(&mut self, Started { admitted, discarded, .. }: Started) {
        self.admitted += admitted;
        self.refused += discarded;
    }

    /// Adds what was done for another key.
    pub(super) fn add(&mut self, of_key: Self) {
        self.admitted += of_key.admitted;
        self.refused += of_key.refused;
        self.more |= of_key.more;
        self.lanes.extend(of_key.lanes);
    }
}

/// What happened to the jobs that a pass has tried to make available.
#[derive(Clone, Copy, Default)]
pub(super) struct Started {
    pub(super) admitted: usize,
    /// The file has refused them.
    pub(super) discarded: usize,
    /// They are tried again later.
    pub(super) put_off: usize,
}

/// Takes paused jobs at the front of the key out of the order of admission. Returns whether there were some: there may
/// be more.
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

/// Makes these jobs available with `start`. A job that the database refuses is discarded, so that it does not stop the
/// others. If the error is not about the job, such as that of a trigger that names a missing table, the job is tried
/// again later.
pub(super) fn start_all(
    conn: &mut SqliteConnection,
    ids: &[JobId],
    start: impl Fn(&mut SqliteConnection, JobId) -> QueryResult<()>,
) -> QueryResult<Started> {
    if ids.is_empty() {
        return Ok(Started::default());
    }
    if conn.transaction(|conn| ids.iter().try_for_each(|id| start(conn, *id))).is_ok() {
        return Ok(Started { admitted: ids.len(), ..Started::default() });
    }
    let mut started = Started::default();
    for &id in ids {
        let Err(error) = conn.transaction(|conn| start(conn, id)) else {
            started.admitted += 1;
            continue;
        };
        give_token_back(conn, id)?;
        let failed = if is_refusal(&error) { discard(conn, id, &error) } else { Err(error) };
        match failed {
            Ok(()) => started.discarded += 1,
            Err(error) => {
                put_off(conn, id, error)?;
                started.put_off += 1;
            }
        }
    }
    Ok(started)
}

#[derive(QueryableByName)]
struct Rated {
    #[diesel(sql_type = Integer)]
    flags: i32,
    #[diesel(sql_type = Text)]
    place: String,
}

/// The token that the pass has spent for a job that does not start. A job with several limits spends its tokens when it
/// starts.
fn give_token_back(conn: &mut SqliteConnection, id: JobId) -> QueryResult<()> {
    let job: Rated =
        sql_query("select flags, place from jobs_job where id = ?1").bind::<BigInt, _>(id.0).get_result(conn)?;
    match serde_json::from_str::<JobRule>(&job.place) {
        Ok(rule) if job.flags & RATE != 0 && job.flags & SEVERAL == 0 => rate::spend(conn, &rule, -1),
        _ => Ok(()),
    }
}

/// Parts of the messages of SQLite that are not about a row. Diesel has no error kinds for these, nor for what a
/// trigger raises.
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

/// Discards the job.
fn discard(conn: &mut SqliteConnection, id: JobId, error: &Error) -> QueryResult<()> {
    let failure = Failure::new(FailureKind::Error, &format!("the database refused to make it available: {error}"));
    conn.transaction(|conn| end_as_discarded(conn, id, &failure, None, Retention::default().discarded)).map(drop)
}
