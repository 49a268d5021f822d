//! `limit_settings`, `set_limit`, `reset_limit`: the numbers that operators set for limits. A row that another session
//! has locked is waited for, so that of two operators the second one learns what the first one did. Admission only
//! reads this table.

use chrono::{DateTime, Utc};
use diesel::dsl::{delete, insert_into, now, update};
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Text};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::LimitSetting;
use serde_json::json;

use super::audit::record;
use crate::pg::schema::limit_setting;

/// A change nudges at most this many keys. Sweeps find the others.
const MOST_KEYS: i64 = 10_000;

type Row = (String, i32, DateTime<Utc>, String, Option<String>);

fn setting((name, most, at, by, reason): Row) -> LimitSetting {
    // The check of the table allows no negative numbers.
    LimitSetting { name, most: u32::try_from(most).unwrap_or_default(), at, by, reason }
}

pub(crate) async fn list(conn: &mut AsyncPgConnection) -> QueryResult<Vec<LimitSetting>> {
    let rows: Vec<Row> = limit_setting::table.order(limit_setting::name).load(conn).await?;
    Ok(rows.into_iter().map(setting).collect())
}

/// The setting of this limit.
pub(crate) async fn one(conn: &mut AsyncPgConnection, name: &str) -> QueryResult<Option<LimitSetting>> {
    let row: Option<Row> = limit_setting::table.find(name).first(conn).await.optional()?;
    Ok(row.map(setting))
}

/// Returns `false` if this was the number already. The caller has checked it.
pub(crate) async fn set(
    conn: &mut AsyncPgConnection,
    name: &str,
    most: u32,
    actor: &str,
    reason: Option<&str>,
) -> QueryResult<bool> {
    let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
    conn.transaction(async move |conn| {
        let number = i32::try_from(most).unwrap_or(i32::MAX);
        let values = (
            limit_setting::name.eq(&name),
            limit_setting::most.eq(number),
            limit_setting::set_by.eq(&actor),
            limit_setting::reason.eq(&reason),
        );
        let added = insert_into(limit_setting::table).values(values).on_conflict_do_nothing().execute(conn).await?;
        let other = limit_setting::table.find(&name).filter(limit_setting::most.ne(number));
        let changed = update(other)
            .set((
                limit_setting::most.eq(number),
                limit_setting::set_at.eq(now),
                limit_setting::set_by.eq(&actor),
                limit_setting::reason.eq(&reason),
            ))
            .execute(conn)
            .await?;
        if added + changed == 0 {
            return Ok(false);
        }
        nudge(conn, &name).await?;
        record(conn, &actor, "set_limit", &target(&name), Some(&json!({ "most": most, "reason": reason }))).await?;
        Ok(true)
    })
    .await
}

/// Returns `false` if none was set.
pub(crate) async fn reset(conn: &mut AsyncPgConnection, name: &str, actor: &str) -> QueryResult<bool> {
    let (name, actor) = (name.to_owned(), actor.to_owned());
    conn.transaction(async move |conn| {
        if delete(limit_setting::table.find(&name)).execute(conn).await? == 0 {
            return Ok(false);
        }
        nudge(conn, &name).await?;
        record(conn, &actor, "reset_limit", &target(&name), None).await?;
        Ok(true)
    })
    .await
}

fn target(name: &str) -> String {
    format!("limit {name}")
}

/// Nudges the keys with waiting jobs, so that the next pass examines them. Each key is one probe in `held_order`,
/// however many jobs it has.
async fn nudge(conn: &mut AsyncPgConnection, name: &str) -> QueryResult<()> {
    sql_query(
        "with recursive key (value, n) as (
    (select h.limit_key, 1::bigint from jobs.held h
     where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = $1 order by h.limit_key limit 1)
    union all
    select next.limit_key, key.n + 1 from key cross join lateral (
        select h.limit_key from jobs.held h
        where not h.later and not h.paused and h.flags & 12 = 0 and h.limit_name = $1 and h.limit_key > key.value order by h.limit_key limit 1
    ) next where key.n < $2
)
insert into jobs.nudge (limit_name, limit_key) select $1, key.value from key",
    )
    .bind::<Text, _>(name)
    .bind::<BigInt, _>(MOST_KEYS)
    .execute(conn)
    .await?;
    sql_query("select jobs.wake_admission()").execute(conn).await.map(drop)
}

#[derive(QueryableByName)]
struct Yes {
    #[diesel(sql_type = Bool)]
    yes: bool,
}

/// Whether jobs of a sequence have this name. It examines a thousand permits of the name.
pub(crate) async fn is_sequence(conn: &mut AsyncPgConnection, name: &str) -> QueryResult<bool> {
    let found: Yes = sql_query(
        "select exists (select from jobs.held h where h.flags & 4 <> 0 and h.limit_name = $1)
    or exists (
        select from (select s.job_id, s.halted_at from jobs.permit s where s.limit_name = $1 limit 1000) permit
        where permit.halted_at is not null
           or exists (select from jobs.ready r where r.id = permit.job_id and r.flags & 4 <> 0 and r.rules #>> '{0,name}' = $1 offset 0)
           or exists (select from jobs.running r where r.id = permit.job_id and r.flags & 4 <> 0 and r.rules #>> '{0,name}' = $1 offset 0)
    ) as yes",
    )
    .bind::<Text, _>(name)
    .get_result(conn)
    .await?;
    Ok(found.yes)
}
