//! Rates: how many jobs with the same key may start per interval. A key without a row in `jobs_rate` has all its
//! tokens. Only admission changes this table. The arithmetic is in `Bucket` of the core.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::{Bucket, JobId, JobRule};

use crate::sqlite::queries::keys::{Key, Number, first_jobs, yes};
use crate::sqlite::time::NOW;

/// The held jobs with a rate that may start when there is a token.
pub(super) const HELD: &str = "jobs_job indexed by jobs_job_held_rate where flags & 2 and held_back = 0 and flags & 8";
/// Those of the key `?1`, `?2` in the order of admission.
pub(super) const IN_ORDER: &str = "from jobs_job indexed by jobs_job_held_rate
    where flags & 2 and held_back = 0 and flags & 8 and limit_name = ?1 and limit_key = ?2 and state = 'available' order by priority desc, due_at, id";

/// How many keys with a new token a pass handles.
const MOST_KEYS: usize = 1000;
/// How many rows of keys that have all tokens again a sweep deletes.
const MOST_ROWS: usize = 5000;

/// The keys that have a new token and a job that waits for it.
pub(super) fn due_keys(conn: &mut SqliteConnection) -> QueryResult<Vec<Key>> {
    sql_query(format!(
        "select limit_name, limit_key from jobs_rate where next_at is not null and next_at <= {NOW} order by next_at limit {MOST_KEYS}"
    ))
    .load(conn)
}

/// Whether any key has a new token and a job that waits for it. Only reads.
pub(super) const IS_DUE: &str = "exists (select 1 from jobs_rate where next_at is not null and next_at <= ";

#[derive(QueryableByName)]
struct Micros {
    #[diesel(sql_type = Nullable<BigInt>)]
    micros: Option<i64>,
}

/// The time until the next token comes that a job waits for, or until admission tries again where it has failed. Only
/// reads.
pub(crate) fn next_token(conn: &mut SqliteConnection) -> QueryResult<Option<Duration>> {
    let next: Micros =
        sql_query(format!(
            "select min(at) - {NOW} as micros from (
                 select min(next_at) as at from jobs_rate r where next_at is not null and not exists (
                     select 1 from jobs_admission_failure f where f.limit_name = r.limit_name and f.limit_key = r.limit_key and f.job_id = 0)
                 union all select min(next_at) from jobs_admission_failure where job_id = 0
             )"
        ))
            .get_result(conn)?;
    Ok(next.micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}

/// Whether a pass must examine this key now, because no time for that is stored. Only reads.
pub(super) fn needs_look(conn: &mut SqliteConnection, key: &Key) -> QueryResult<bool> {
    let waits: i64 = {
        let row: Number = sql_query(
            "select count(*) as number from jobs_rate where limit_name = ?1 and limit_key = ?2 and next_at is not null",
        )
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .get_result(conn)?;
        row.number
    };
    Ok(waits == 0)
}

/// Whether there are rows that say nothing any more. Only reads.
pub(super) fn has_old(conn: &mut SqliteConnection) -> QueryResult<bool> {
    yes(conn, &format!("exists (select 1 from jobs_rate where next_at is null and full_at <= {NOW})"))
}

/// Deletes such rows.
pub(super) fn delete_old(conn: &mut SqliteConnection) -> QueryResult<()> {
    sql_query(format!(
        "delete from jobs_rate where (limit_name, limit_key) in (
             select limit_name, limit_key from jobs_rate where next_at is null and full_at <= {NOW} order by full_at limit {MOST_ROWS}
         )"
    ))
    .execute(conn)
    .map(drop)
}

#[derive(QueryableByName)]
struct HeadRow {
    #[diesel(sql_type = Text)]
    place: String,
    #[diesel(sql_type = BigInt)]
    now: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    full_at: Option<i64>,
}

/// The next jobs of the key for which there are tokens. The tokens are spent.
pub(super) fn free_jobs(conn: &mut SqliteConnection, key: &Key, pauses: bool) -> QueryResult<Vec<JobId>> {
    let head: Option<HeadRow> = sql_query(format!(
        "select head.place, {NOW} as now, (select full_at from jobs_rate where limit_name = ?1 and limit_key = ?2) as full_at
         from (select place {IN_ORDER} limit 1) head"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .get_result(conn)
    .optional()?;
    let Some(HeadRow { place, now, full_at }) = head else {
        wait_no_more(conn, key)?;
        return Ok(Vec::new());
    };
    // What cannot be read waits, and `worker why` says so. It must not stop the other keys.
    let rule = serde_json::from_str::<JobRule>(&place).ok();
    let bucket = rule.and_then(|rule| Bucket::of(rule.rule, full_at.unwrap_or(now).saturating_sub(now)));
    let Some(bucket) = bucket else { return Ok(Vec::new()) };
    let tokens = bucket.tokens();
    let mut ids = first_jobs(conn, key, IN_ORDER, tokens + 1, pauses)?;
    let waits = i64::try_from(ids.len()).is_ok_and(|jobs| jobs > tokens);
    ids.truncate(usize::try_from(tokens).unwrap_or(0));
    let bucket = bucket.spend(i64::try_from(ids.len()).unwrap_or(i64::MAX));
    let next_at = waits.then(|| now.saturating_add(bucket.next_look()));
    sql_query(
        "insert into jobs_rate (limit_name, limit_key, full_at, next_at) values (?1, ?2, ?3, ?4)
         on conflict (limit_name, limit_key) do update set full_at = excluded.full_at, next_at = excluded.next_at",
    )
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .bind::<BigInt, _>(now.saturating_add(bucket.lack()))
    .bind::<Nullable<BigInt>, _>(next_at)
    .execute(conn)?;
    Ok(ids)
}

/// How many tokens there are of this rate.
pub(super) fn tokens(conn: &mut SqliteConnection, rule: &JobRule) -> QueryResult<i64> {
    Ok(bucket(conn, rule)?.map_or(0, |(bucket, _)| bucket.tokens()))
}

/// Spends this many tokens of this rate. A negative number gives back those that the same pass has spent.
pub(super) fn spend(conn: &mut SqliteConnection, rule: &JobRule, number: i64) -> QueryResult<()> {
    let Some((bucket, now)) = bucket(conn, rule)? else { return Ok(()) };
    sql_query(
        "insert into jobs_rate (limit_name, limit_key, full_at) values (?1, ?2, ?3)
         on conflict (limit_name, limit_key) do update set full_at = excluded.full_at",
    )
    .bind::<Text, _>(&rule.name)
    .bind::<Text, _>(&rule.key)
    .bind::<BigInt, _>(now.saturating_add(bucket.spend(number).lack()))
    .execute(conn)
    .map(drop)
}

/// The tokens of this rate, and the time.
fn bucket(conn: &mut SqliteConnection, rule: &JobRule) -> QueryResult<Option<(Bucket, i64)>> {
    let row: LackRow = sql_query(format!(
        "select {NOW} as now, (select full_at from jobs_rate where limit_name = ?1 and limit_key = ?2) as full_at"
    ))
    .bind::<Text, _>(&rule.name)
    .bind::<Text, _>(&rule.key)
    .get_result(conn)?;
    let lack = row.full_at.unwrap_or(row.now).saturating_sub(row.now);
    Ok(Bucket::of(rule.rule, lack).map(|bucket| (bucket, row.now)))
}

#[derive(QueryableByName)]
struct LackRow {
    #[diesel(sql_type = BigInt)]
    now: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    full_at: Option<i64>,
}

/// No job of the key waits any more.
fn wait_no_more(conn: &mut SqliteConnection, key: &Key) -> QueryResult<()> {
    sql_query("update jobs_rate set next_at = null where limit_name = ?1 and limit_key = ?2 and next_at is not null")
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .execute(conn)
        .map(drop)
}

/// Lets the tokens of all keys come earlier by this span, for tests that skip time.
pub(super) fn bring_forward(conn: &mut SqliteConnection, span: i64) -> QueryResult<()> {
    sql_query("update jobs_rate set full_at = full_at - ?1, next_at = next_at - ?1")
        .bind::<BigInt, _>(span)
        .execute(conn)
        .map(drop)
}
