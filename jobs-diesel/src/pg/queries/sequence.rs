//! `halted_sequences`, `count_halted` and `skip_sequence`. A permit with `halted_at` is that of a discarded job, and
//! stops its sequence. The delete waits for a permit that another session has locked.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text, Timestamptz};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::JobId;
use diesel_jobs_core::storage::{COUNTED_OF_LIMIT, Count, HaltedSequence, MOST_AHEAD};
use serde_json::json;

use super::audit::record;

#[derive(QueryableByName)]
struct HaltedRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = BigInt)]
    job: i64,
    #[diesel(sql_type = Timestamptz)]
    at: DateTime<Utc>,
    #[diesel(sql_type = BigInt)]
    waiting: i64,
}

impl From<HaltedRow> for HaltedSequence {
    fn from(HaltedRow { name, key, job, at, waiting }: HaltedRow) -> Self {
        Self { name, key, job: JobId(job), at, waiting: u32::try_from(waiting).unwrap_or_default() }
    }
}

/// `$2` is how many waiting jobs are counted.
const HALTED: &str = "select s.limit_name as name, s.limit_key as key, s.job_id as job, s.halted_at::timestamptz as at,
       (select count(*) from (
           select from jobs.held h where h.flags & 4 <> 0 and h.limit_name = s.limit_name and h.limit_key = s.limit_key limit $2
       ) held) as waiting
from jobs.permit s where s.halted_at is not null";

/// The halted sequences, at most `limit`.
pub(crate) async fn halted(conn: &mut AsyncPgConnection, limit: i64) -> QueryResult<Vec<HaltedSequence>> {
    let rows: Vec<HaltedRow> = sql_query(format!("{HALTED} order by s.limit_name, s.limit_key limit $1"))
        .bind::<BigInt, _>(limit)
        .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(HaltedSequence::from).collect())
}

/// The sequence that this job halts. A job has at most one.
pub(crate) async fn halted_by(conn: &mut AsyncPgConnection, id: JobId) -> QueryResult<Option<HaltedSequence>> {
    let rows: Vec<HaltedRow> = sql_query(format!("{HALTED} and s.job_id = $1 limit 1"))
        .bind::<BigInt, _>(id.0)
        .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
        .load(conn)
        .await?;
    Ok(rows.into_iter().next().map(HaltedSequence::from))
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// How many sequences are halted. It counts up to a limit.
pub(crate) async fn count(conn: &mut AsyncPgConnection) -> QueryResult<Count> {
    let found: Number = sql_query(
        "select count(*) as number from (select from jobs.permit where halted_at is not null limit $1) halted",
    )
    .bind::<BigInt, _>(COUNTED_OF_LIMIT.cast_signed() + 1)
    .get_result(conn)
    .await?;
    let jobs = found.number.unsigned_abs();
    Ok(Count { jobs: jobs.min(COUNTED_OF_LIMIT), is_exact: jobs <= COUNTED_OF_LIMIT })
}

#[derive(QueryableByName)]
struct PermitRow {
    #[diesel(sql_type = BigInt)]
    job_id: i64,
}

/// Deletes the permit of the discarded job, so that the next one starts. Returns `false` if the sequence is not halted.
pub(crate) async fn skip(conn: &mut AsyncPgConnection, name: &str, key: &str, actor: &str) -> QueryResult<bool> {
    let (name, key, actor) = (name.to_owned(), key.to_owned(), actor.to_owned());
    conn.transaction(async move |conn| {
        let gone: Vec<PermitRow> = sql_query(
            "with gone as (
    delete from jobs.permit where limit_name = $1 and limit_key = $2 and halted_at is not null returning job_id, limit_name, limit_key
), nudged as (
    insert into jobs.nudge (limit_name, limit_key, run_at) select distinct limit_name, limit_key, null::timestamptz from gone
)
select job_id from gone order by job_id",
        )
        .bind::<Text, _>(&name)
        .bind::<Text, _>(&key)
        .load(conn)
        .await?;
        let Some(PermitRow { job_id }) = gone.as_slice().first() else { return Ok(false) };
        sql_query("select jobs.wake_admission()").execute(conn).await?;
        let detail = json!({ "key": key, "job": job_id });
        record(conn, &actor, "skip", &format!("sequence {name}"), Some(&detail)).await?;
        Ok(true)
    })
    .await
}
