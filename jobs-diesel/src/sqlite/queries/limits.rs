//! Held jobs. `admit` says how they are stored.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::flags::{FAIR, HELD, LIMITED, RATE, SEQUENCE};
use diesel_jobs_core::storage::{Claim, HeldBy, LimitSetting, MOST_AHEAD, MOST_SHOWN, Tokens};
use diesel_jobs_core::{JobId, JobRule, Rules};

#[cfg(feature = "testing")]
use crate::sqlite::queries::lanes;
use crate::sqlite::queries::sequence::NEXT;
use crate::sqlite::queries::{fair, limit_setting};
use crate::sqlite::time::{FAR, NOW};
use crate::sqlite::types::Instant;

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// Holds a job with a limit that is available. Its permit is given back. Jobs without a limit are not changed.
pub(crate) fn hold(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let hold = format!(
        "update jobs_job set flags = flags | {HELD}, due_at = run_at, held_back = run_at > {NOW}, run_at = {FAR} where id = ?1 and flags & {LIMITED} and state = 'available'"
    );
    sql_query(hold).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

/// Makes a held job due now. It still waits for its limit.
pub(crate) fn hold_until_now(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let due = format!(
        "update jobs_job set flags = flags, held_back = 0, due_at = min(due_at, {NOW}) where id = ?1 and flags & {HELD}"
    );
    sql_query(due).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

/// Makes a held job available without a permit, for the testing kit, which runs one job at a time.
#[cfg(feature = "testing")]
pub(crate) fn unhold(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let free = format!(
        "update jobs_job set {}, run_at = due_at, due_at = null, held_back = 0 where id = ?1 and flags & {HELD} and state = 'available'",
        lanes::free_of_lane()
    );
    sql_query(free).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

#[derive(QueryableByName)]
struct HeldRow {
    #[diesel(sql_type = BigInt)]
    taken: i64,
    #[diesel(sql_type = BigInt)]
    ahead: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    next: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    halted_at: Option<Instant>,
    #[diesel(sql_type = Nullable<BigInt>)]
    halted_by: Option<i64>,
    #[diesel(sql_type = BigInt)]
    now: Instant,
    #[diesel(sql_type = Nullable<BigInt>)]
    lack: Option<i64>,
}

#[derive(QueryableByName)]
struct RulesRow {
    #[diesel(sql_type = Text)]
    rules: String,
}

/// What this job waits for, if it is held and due.
pub(crate) fn held_by(conn: &mut SqliteConnection, job: JobId) -> QueryResult<Option<HeldBy>> {
    let row: Option<RulesRow> =
        sql_query(format!("select rules from jobs_job where id = ?1 and flags & {HELD} and due_at <= {NOW}"))
            .bind::<BigInt, _>(job.0)
            .get_result(conn)
            .optional()?;
    let Some(RulesRow { rules }) = row else { return Ok(None) };
    let rules =
        Rules::read(rules.as_bytes()).map_err(|error| diesel::result::Error::DeserializationError(error.into()))?;
    let Some((rule, waits_at)) = rules.first().cloned().zip(rules.to_stored()) else { return Ok(None) };
    let row: HeldRow = sql_query(format!(
        "select (select count(*) from jobs_permit where limit_name = ?1 and limit_key = ?2) as taken,
                case when h.flags & {SEQUENCE} then (select count(*) from (
                    select 1 from jobs_job o where o.flags & 2 and o.flags & 4 and o.limit_name = ?1 and o.limit_key = ?2 and o.id < ?3 limit ?4
                )) when h.flags & {FAIR} then (select count(*) from (
                    select 1 from jobs_job o where o.flags & 2 and o.held_back = 0 and o.flags & 256 and o.limit_name = ?1 and o.limit_key = ?2
                      and o.rules ->> '$[0].tenant' = h.rules ->> '$[0].tenant' and (-o.priority, o.due_at, o.id) < (-h.priority, h.due_at, h.id) limit ?4
                )) when h.flags & {RATE} then (select count(*) from (
                    select 1 from jobs_job o where o.flags & 2 and o.held_back = 0 and o.flags & 8 and o.limit_name = ?1 and o.limit_key = ?2
                      and (-o.priority, o.due_at, o.id) < (-h.priority, h.due_at, h.id) limit ?4
                )) else (select count(*) from (
                    select 1 from jobs_job o where o.flags & 2 and o.held_back = 0 and o.flags & 12 = 0 and o.limit_name = ?1 and o.limit_key = ?2
                      and (-o.priority, o.due_at, o.id) < (-h.priority, h.due_at, h.id) limit ?4
                )) end as ahead,
                case when h.flags & {SEQUENCE} then {NEXT} end as next,
                (select halted_at from jobs_permit where limit_name = ?1 and limit_key = ?2 and halted_at is not null) as halted_at,
                (select job_id from jobs_permit where limit_name = ?1 and limit_key = ?2 and halted_at is not null) as halted_by,
                {NOW} as now, (select full_at - {NOW} from jobs_rate where limit_name = ?1 and limit_key = ?2) as lack
         from jobs_job h where h.id = ?3"
    ))
    .bind::<Text, _>(&waits_at.name)
    .bind::<Text, _>(&waits_at.key)
    .bind::<BigInt, _>(job.0)
    .bind::<BigInt, _>(i64::from(MOST_AHEAD) + 1)
    .get_result(conn)?;
    let ahead = u32::try_from(row.ahead).unwrap_or(u32::MAX);
    Ok(Some(HeldBy {
        tokens: Tokens::of(rule.rule, row.lack.unwrap_or_default(), ahead, row.now.0).filter(|_| !rules.are_several()),
        set: set_of(conn, &rule)?,
        taken: row.taken.unsigned_abs(),
        holders: holders(conn, &waits_at.name, &waits_at.key)?,
        ahead,
        other_tenants: fair::others(conn, &rule)?,
        next: row.next.map(JobId),
        halted: row.halted_at.map(|at| at.0).zip(row.halted_by.map(JobId)),
        several: each(conn, &rules, row.now)?,
        now: row.now.0,
        rule,
    }))
}

#[derive(QueryableByName)]
struct EachRow {
    #[diesel(sql_type = BigInt)]
    taken: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    lack: Option<i64>,
}

/// Each rule of a job with several ones. None if the job has only one.
fn each(conn: &mut SqliteConnection, rules: &Rules, now: Instant) -> QueryResult<Vec<HeldBy>> {
    let mut several = Vec::new();
    for rule in rules.iter().filter(|_| rules.are_several()) {
        let row: EachRow = sql_query(format!(
            "select (select count(*) from jobs_permit where limit_name = ?1 and limit_key = ?2) as taken,
                    (select full_at - {NOW} from jobs_rate where limit_name = ?1 and limit_key = ?2) as lack"
        ))
        .bind::<Text, _>(&rule.name)
        .bind::<Text, _>(&rule.key)
        .get_result(conn)?;
        several.push(HeldBy {
            tokens: Tokens::of(rule.rule, row.lack.unwrap_or_default(), 0, now.0),
            set: set_of(conn, rule)?,
            taken: row.taken.unsigned_abs(),
            holders: holders(conn, &rule.name, &rule.key)?,
            ahead: 0,
            other_tenants: None,
            next: None,
            halted: None,
            several: Vec::new(),
            now: now.0,
            rule: rule.clone(),
        });
    }
    Ok(several)
}

/// What an operator has set for this rule. Only limits can be set.
fn set_of(conn: &mut SqliteConnection, rule: &JobRule) -> QueryResult<Option<LimitSetting>> {
    if rule.rule.most().is_some() { limit_setting::one(conn, &rule.name) } else { Ok(None) }
}

/// Some of the jobs that have permits of the key.
fn holders(conn: &mut SqliteConnection, name: &str, key: &str) -> QueryResult<Vec<JobId>> {
    let holders: Vec<Number> = sql_query(
        "select job_id as number from jobs_permit where limit_name = ?1 and limit_key = ?2 order by job_id limit ?3",
    )
    .bind::<Text, _>(name)
    .bind::<Text, _>(key)
    .bind::<BigInt, _>(i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX))
    .load(conn)?;
    Ok(holders.into_iter().map(|row| JobId(row.number)).collect())
}

#[derive(QueryableByName)]
struct Due {
    #[diesel(sql_type = Nullable<BigInt>)]
    micros: Option<i64>,
}

/// The time until the first held job of these queues and kinds is due. Reads all held jobs.
pub(crate) fn next_held(conn: &mut SqliteConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    until(conn, claim, "min(max(due_at, token))")
}

/// The time until the first token for which a due job of these queues and kinds waits. Reads all held jobs.
pub(crate) fn next_token(conn: &mut SqliteConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    until(conn, claim, &format!("min(token) filter (where due_at <= {NOW} and token > {NOW})"))
}

fn until(conn: &mut SqliteConnection, claim: &Claim, first: &str) -> QueryResult<Option<Duration>> {
    let list = |names: Vec<&str>| serde_json::to_string(&names).unwrap_or_default();
    let due: Due = sql_query(format!(
        "select {first} - {NOW} as micros from (
             select due_at, coalesce(case when limit_name = '' then (
                        select r.next_at from jobs_job o indexed by jobs_job_held_from_lane join jobs_rate r on r.limit_name = o.limit_name and r.limit_key = o.limit_key
                        where o.flags & 2 and o.flags & 132 = 128 and o.limit_name <> '' and o.lane = j.limit_key and o.flags & 8
                    ) end, 0) as token, queue, kind
             from jobs_job j indexed by jobs_job_held where flags & 2 and held_back = 0 and flags & 12 = 0
             union all select due_at, 0, queue, kind from jobs_job indexed by jobs_job_held_sequence where flags & 2 and flags & 4
             union all select due_at, coalesce((select next_at from jobs_rate r where r.limit_name = j.limit_name and r.limit_key = j.limit_key), 0),
                              queue, kind
                       from jobs_job j indexed by jobs_job_held_rate where flags & 2 and held_back = 0 and flags & 8
             union all select due_at, 0, queue, kind from jobs_job indexed by jobs_job_held_later where flags & 2 and held_back = 1
             union all select due_at, 0, queue, kind from jobs_job indexed by jobs_job_held_paused where flags & 2 and held_back = 2
         ) where queue in (select value from json_each(?1)) and kind in (select value from json_each(?2))
           and queue not in (select name from jobs_queue where paused) and kind not in (select name from jobs_kind where paused)
           and not exists (select 1 from jobs_installation where frozen_at is not null)"
    ))
    .bind::<Text, _>(list(claim.wanted.iter().map(|wanted| &*wanted.queue).collect()))
    .bind::<Text, _>(list(claim.kinds.iter().map(String::as_str).collect()))
    .get_result(conn)?;
    Ok(due.micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}
