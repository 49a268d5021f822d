//! `limit_settings`, `set_limit`, `reset_limit`: the numbers that operators set for limits.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_jobs_core::storage::LimitSetting;
use serde_json::json;

use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::jobs_limit_setting;
use crate::sqlite::time::Now;
use crate::sqlite::types::Instant;

/// A change nudges at most this many keys. Sweeps find the others.
const MOST_KEYS: i64 = 10_000;

type Row = (String, i32, Instant, String, Option<String>);

fn setting((name, most, at, by, reason): Row) -> LimitSetting {
    // The check of the table allows no negative numbers.
    LimitSetting { name, most: u32::try_from(most).unwrap_or_default(), at: at.0, by, reason }
}

pub(crate) fn list(conn: &mut SqliteConnection) -> QueryResult<Vec<LimitSetting>> {
    let rows: Vec<Row> = jobs_limit_setting::table.order(jobs_limit_setting::name).load(conn)?;
    Ok(rows.into_iter().map(setting).collect())
}

/// The setting of this limit.
pub(crate) fn one(conn: &mut SqliteConnection, name: &str) -> QueryResult<Option<LimitSetting>> {
    let row: Option<Row> = jobs_limit_setting::table.find(name).first(conn).optional()?;
    Ok(row.map(setting))
}

/// Returns `false` if this was the number already. The caller has checked it.
pub(crate) fn set(
    conn: &mut SqliteConnection,
    name: &str,
    most: u32,
    actor: &str,
    reason: Option<&str>,
) -> QueryResult<bool> {
    let number = i32::try_from(most).unwrap_or(i32::MAX);
    let values = (
        jobs_limit_setting::name.eq(name),
        jobs_limit_setting::most.eq(number),
        jobs_limit_setting::set_by.eq(actor),
        jobs_limit_setting::reason.eq(reason),
    );
    let added = diesel::insert_or_ignore_into(jobs_limit_setting::table).values(values).execute(conn)?;
    let other = jobs_limit_setting::table.find(name).filter(jobs_limit_setting::most.ne(number));
    let changed = diesel::update(other)
        .set((
            jobs_limit_setting::most.eq(number),
            jobs_limit_setting::set_at.eq(Now),
            jobs_limit_setting::set_by.eq(actor),
            jobs_limit_setting::reason.eq(reason),
        ))
        .execute(conn)?;
    if added + changed == 0 {
        return Ok(false);
    }
    nudge(conn, name)?;
    record(conn, actor, "set_limit", &target(name), Some(&json!({ "most": most, "reason": reason })))?;
    Ok(true)
}

/// Returns `false` if none was set.
pub(crate) fn reset(conn: &mut SqliteConnection, name: &str, actor: &str) -> QueryResult<bool> {
    if diesel::delete(jobs_limit_setting::table.find(name)).execute(conn)? == 0 {
        return Ok(false);
    }
    nudge(conn, name)?;
    record(conn, actor, "reset_limit", &target(name), None)?;
    Ok(true)
}

fn target(name: &str) -> String {
    format!("limit {name}")
}

/// Nudges the keys with waiting jobs, so that the next pass examines them. Each key is one probe in `jobs_job_held`,
/// however many jobs it has.
fn nudge(conn: &mut SqliteConnection, name: &str) -> QueryResult<()> {
    let held =
        "jobs_job indexed by jobs_job_held where flags & 2 and held_back = 0 and flags & 12 = 0 and limit_name = ?1";
    sql_query(format!(
        "with recursive key (value, n) as (
             select (select limit_key from {held} order by limit_key limit 1), 1
             union all
             select (select limit_key from {held} and limit_key > key.value order by limit_key limit 1), key.n + 1
             from key where key.value is not null and key.n < ?2
         )
         insert into jobs_nudge (limit_name, limit_key) select ?1, value from key where value is not null"
    ))
    .bind::<Text, _>(name)
    .bind::<BigInt, _>(MOST_KEYS)
    .execute(conn)
    .map(drop)
}

#[derive(QueryableByName)]
struct Yes {
    #[diesel(sql_type = Bool)]
    yes: bool,
}

/// Whether jobs of a sequence have this name. It examines a thousand permits of the name.
pub(crate) fn is_sequence(conn: &mut SqliteConnection, name: &str) -> QueryResult<bool> {
    let found: Yes = sql_query(
        "select exists (select 1 from jobs_job indexed by jobs_job_held_sequence where flags & 2 and flags & 4 and limit_name = ?1)
             or exists (
                 select 1 from (select job_id, halted_at from jobs_permit where limit_name = ?1 limit 1000) permit
                 where permit.halted_at is not null or exists (select 1 from jobs_job where id = permit.job_id and flags & 1 and rules -> '$[0].rule.sequence' is not null and rules ->> '$[0].name' = ?1)
             ) as yes",
    )
    .bind::<Text, _>(name)
    .get_result(conn)?;
    Ok(found.yes)
}
