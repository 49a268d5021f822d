//! `admit`: a pass of admission. A held job is available, has the flag `HELD`, its time in `due_at`, and a `run_at` in the year 9999. Its
//! `held_back` says whether it is in the order of admission (0), is not due (1), or was found paused (2). Triggers of the schema delete slots
//! and write nudges. Sequences are admitted in an order of their own, see `sequence`, and jobs
//! with a rate when there is a token, see `rate`.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::flags::HELD;
use diesel_jobs_core::storage::Admission;
use diesel_jobs_core::{Failure, FailureKind, JobId};

use crate::sqlite::queries::act::end_as_discarded;
use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::queries::keys::{IN_ORDER, Key, MOST_AHEAD, PAUSED, first_jobs, free, yes};
use crate::sqlite::queries::sweep::{Sweep, put_in_order};
use crate::sqlite::queries::{rate, sequence};
use crate::sqlite::time::{FAR, NOW};

/// Nudges per pass.
const MOST_NUDGES: usize = 1000;

/// Whether there are held jobs, and whether there are nudges or new tokens. Only reads.
pub(crate) fn state(conn: &mut SqliteConnection) -> QueryResult<(bool, bool)> {
    let holds = yes(
        conn,
        "exists (select 1 from jobs_job indexed by jobs_job_held where flags & 2 and held_back = 0 and flags & 12 = 0)
         or exists (select 1 from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1)
         or exists (select 1 from jobs_job indexed by jobs_job_held_paused where flags & 2 and held_back = 2)
         or exists (select 1 from jobs_job indexed by jobs_job_held_sequence where flags & 2 and flags & 4)
         or exists (select 1 from jobs_job indexed by jobs_job_held_rate where flags & 2 and held_back = 0 and flags & 8)",
    )?;
    Ok((holds, yes(conn, &format!("exists (select 1 from jobs_nudge) or {}{NOW})", rate::IS_DUE))?))
}

/// A pass of admission for the keys that were nudged, and for what a sweep has found. The caller's transaction holds the write lock.
pub(crate) fn admit(conn: &mut SqliteConnection, sweep: Sweep) -> QueryResult<Admission> {
    if is_frozen(conn)? {
        return Ok(Admission::default());
    }
    let (mut keys, sweep_again) = put_in_order(conn, sweep)?;
    let nudged: Vec<Key> = sql_query(format!(
        "delete from jobs_nudge where rowid in (select rowid from jobs_nudge limit {MOST_NUDGES}) returning limit_name, limit_key"
    ))
    .load(conn)?;
    let mut more = sweep_again || nudged.len() >= MOST_NUDGES;
    keys.extend(nudged);
    keys.extend(rate::due_keys(conn)?);
    keys.sort_unstable();
    keys.dedup();
    let pauses =
        yes(conn, "exists (select 1 from jobs_queue where paused) or exists (select 1 from jobs_kind where paused)")?;
    let (mut admitted, mut refused) = (0, 0);
    for key in &keys {
        let goes_on = pauses && (set_paused_aside(conn, key, IN_ORDER)? | set_paused_aside(conn, key, rate::IN_ORDER)?);
        let mut ids = free_jobs(conn, key, pauses)?;
        ids.extend(sequence::free_job(conn, key)?);
        ids.extend(rate::free_jobs(conn, key, pauses)?);
        let started = start_all(conn, key, &ids)?;
        admitted += started;
        refused += ids.len() - started;
        if goes_on {
            // The next pass looks at the jobs behind them.
            nudge(conn, key)?;
            more = true;
        }
    }
    Ok(Admission { is_busy: false, admitted, more, sweep_again, holds: true, refused, next_token: None })
}

/// Takes paused jobs at the front of the key out of the order of admission. Returns whether there were some: there may be more.
fn set_paused_aside(conn: &mut SqliteConnection, key: &Key, in_order: &str) -> QueryResult<bool> {
    let paused = format!(
        "update jobs_job set held_back = 2 where id in (
             select id from (select id, queue, kind {in_order} limit {MOST_AHEAD}) where {PAUSED}
         )"
    );
    let aside = sql_query(paused).bind::<Text, _>(&key.limit_name).bind::<Text, _>(&key.limit_key).execute(conn)?;
    Ok(aside > 0)
}

/// The next jobs of the key for which slots are free. While something is paused, it looks at few jobs more than there are free slots.
fn free_jobs(conn: &mut SqliteConnection, key: &Key, pauses: bool) -> QueryResult<Vec<JobId>> {
    let free = free(conn, key)?;
    if free <= 0 {
        return Ok(Vec::new());
    }
    first_jobs(conn, key, IN_ORDER, free, pauses)
}

fn nudge(conn: &mut SqliteConnection, key: &Key) -> QueryResult<()> {
    sql_query("insert into jobs_nudge (limit_name, limit_key) values (?1, ?2)")
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)
        .map(drop)
}

/// Makes these jobs available and gives them slots, except those with a rate. A job that the database refuses is discarded, so that it does not stop the others.
/// Returns how many are available.
fn start_all(conn: &mut SqliteConnection, key: &Key, ids: &[JobId]) -> QueryResult<usize> {
    if ids.is_empty() {
        return Ok(0);
    }
    let at_once = conn.transaction(|conn| ids.iter().try_for_each(|id| start(conn, key, *id)));
    match at_once {
        Ok(()) => return Ok(ids.len()),
        Err(error) if !is_refusal(&error) => return Err(error),
        Err(_) => {}
    }
    let mut started = 0;
    for &id in ids {
        match conn.transaction(|conn| start(conn, key, id)) {
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

fn start(conn: &mut SqliteConnection, key: &Key, id: JobId) -> QueryResult<()> {
    let free = format!(
        "update jobs_job set flags = flags & ~{HELD}, run_at = {NOW}, due_at = null where id = ?1 and run_at = {FAR}"
    );
    sql_query(free).bind::<BigInt, _>(id.0).execute(conn)?;
    sql_query("insert or ignore into jobs_slot (job_id, limit_name, limit_key) select id, ?2, ?3 from jobs_job where id = ?1 and flags & 8 = 0")
        .bind::<BigInt, _>(id.0)
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)?;
    // A discarded job that was retried does not halt its sequence any more.
    sql_query("update jobs_slot set halted_at = null where job_id = ?1 and halted_at is not null")
        .bind::<BigInt, _>(id.0)
        .execute(conn)
        .map(drop)
}

/// Discards the job. If this is refused, too, the job stays, and the next pass tries it again.
fn refuse(conn: &mut SqliteConnection, id: JobId, error: &Error) -> QueryResult<()> {
    let failure = Failure::new(FailureKind::Error, &format!("the database refused to make it available: {error}"));
    match conn.transaction(|conn| end_as_discarded(conn, id, &failure, None)) {
        Err(error) if is_refusal(&error) => {
            tracing::warn!(target: "diesel_jobs", { job.id = id.0, %error }, "a held job can neither start nor be discarded");
            Ok(())
        }
        other => other,
    }
}
