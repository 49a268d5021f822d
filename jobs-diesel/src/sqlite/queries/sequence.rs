//! Sequences: which job is next, and what operators do to a halted one. A job of a sequence keeps its permit until it
//! has ended. A permit with `halted_at` is that of a discarded job, and stops its sequence.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{COUNTED_OF_LIMIT, Count, HaltedSequence, MOST_AHEAD};
use serde_json::json;

use crate::sqlite::queries::audit::record;
use crate::sqlite::queries::keys::{Key, PAUSED};
use crate::sqlite::types::Instant;

/// The held job whose turn it is in the sequence `?1`, `?2`. If a held job has the permit, it is this job: it waits for
/// its next attempt, or was retried. Else it is the job with the lowest id. Null while a job that is not held has the
/// permit.
pub(super) const NEXT: &str =
    "(select case when exists (select 1 from jobs_permit where limit_name = ?1 and limit_key = ?2)
    then (select s.job_id from jobs_permit s where s.limit_name = ?1 and s.limit_key = ?2
          and exists (select 1 from jobs_job h where h.id = s.job_id and h.flags & 2 and h.flags & 4) limit 1)
    else (select id from jobs_job indexed by jobs_job_held_sequence
          where flags & 2 and flags & 4 and limit_name = ?1 and limit_key = ?2 order by id limit 1)
    end)";

#[derive(QueryableByName)]
struct NextRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Bool)]
    paused: bool,
}

fn next_row(conn: &mut SqliteConnection, key: &Key) -> QueryResult<Option<NextRow>> {
    sql_query(format!(
        "select id, {PAUSED} as paused from jobs_job
         where id = {NEXT} and flags & 2 and flags & 4 and held_back = 0 and state = 'available'"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .get_result(conn)
    .optional()
}

/// The job that may start now. Only reads.
pub(super) fn next(conn: &mut SqliteConnection, key: &Key) -> QueryResult<Option<JobId>> {
    Ok(next_row(conn, key)?.filter(|next| !next.paused).map(|next| JobId(next.id)))
}

/// The job that may start now. If it is paused, a sweep finds it after the resume.
pub(super) fn free_job(conn: &mut SqliteConnection, key: &Key) -> QueryResult<Option<JobId>> {
    let Some(NextRow { id, paused }) = next_row(conn, key)? else { return Ok(None) };
    if !paused {
        return Ok(Some(JobId(id)));
    }
    sql_query("update jobs_job set held_back = 2 where id = ?1").bind::<BigInt, _>(id).execute(conn)?;
    Ok(None)
}

/// Deletes the permit of the discarded job, so that the next one starts. Returns `false` if the sequence is not halted.
pub(crate) fn skip(conn: &mut SqliteConnection, name: &str, key: &str, actor: &str) -> QueryResult<bool> {
    let gone: Vec<PermitRow> = sql_query(
        "delete from jobs_permit where limit_name = ?1 and limit_key = ?2 and halted_at is not null returning job_id",
    )
    .bind::<Text, _>(name)
    .bind::<Text, _>(key)
    .load(conn)?;
    let Some(PermitRow { job_id }) = gone.as_slice().first() else { return Ok(false) };
    sql_query("insert into jobs_nudge (limit_name, limit_key) values (?1, ?2)")
        .bind::<Text, _>(name)
        .bind::<Text, _>(key)
        .execute(conn)?;
    record(conn, actor, "skip", &format!("sequence {name}"), Some(&json!({ "key": key, "job": job_id })))?;
    Ok(true)
}

#[derive(QueryableByName)]
struct PermitRow {
    #[diesel(sql_type = BigInt)]
    job_id: i64,
}

#[derive(QueryableByName)]
struct HaltedRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = BigInt)]
    job: i64,
    #[diesel(sql_type = BigInt)]
    at: Instant,
    #[diesel(sql_type = BigInt)]
    waiting: i64,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// How many sequences are halted. It counts up to a limit.
pub(crate) fn count(conn: &mut SqliteConnection) -> QueryResult<Count> {
    let found: Number =
        sql_query("select count(*) as number from (select 1 from jobs_permit where halted_at is not null limit ?1)")
            .bind::<BigInt, _>(COUNTED_OF_LIMIT.cast_signed() + 1)
            .get_result(conn)?;
    let jobs = found.number.unsigned_abs();
    Ok(Count { jobs: jobs.min(COUNTED_OF_LIMIT), is_exact: jobs <= COUNTED_OF_LIMIT })
}

impl From<HaltedRow> for HaltedSequence {
    fn from(HaltedRow { name, key, job, at, waiting }: HaltedRow) -> Self {
        Self { name, key, job: JobId(job), at: at.0, waiting: u32::try_from(waiting).unwrap_or_default() }
    }
}

/// `?2` is how many waiting jobs are counted.
const HALTED: &str = "select s.limit_name as name, s.limit_key as key, s.job_id as job, s.halted_at as at,
                (select count(*) from (
                    select 1 from jobs_job indexed by jobs_job_held_sequence
                    where flags & 2 and flags & 4 and limit_name = s.limit_name and limit_key = s.limit_key limit ?2
                )) as waiting
         from jobs_permit s where s.halted_at is not null";

/// The halted sequences, at most `limit`.
pub(crate) fn halted(conn: &mut SqliteConnection, limit: i64) -> QueryResult<Vec<HaltedSequence>> {
    let rows: Vec<HaltedRow> = sql_query(format!("{HALTED} order by s.limit_name, s.limit_key limit ?1"))
        .bind::<BigInt, _>(limit)
        .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
        .load(conn)?;
    Ok(rows.into_iter().map(HaltedSequence::from).collect())
}

/// The sequence that this job halts. A job has at most one.
pub(crate) fn halted_by(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Option<HaltedSequence>> {
    let rows: Vec<HaltedRow> = sql_query(format!("{HALTED} and s.job_id = ?1 limit 1"))
        .bind::<BigInt, _>(id.0)
        .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
        .load(conn)?;
    Ok(rows.into_iter().next().map(HaltedSequence::from))
}
