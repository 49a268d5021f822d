//! What operators do with schedules: `add`, `change`, `reset`, `pause`, `resume`, `remove`, `enqueue`. Each locks the
//! row, and waits for it: an operator asks for just this schedule. Meanwhile the scheduler passes over it.
//!
//! Rows that an operator has added or changed have [`OPERATORS`], so that programs that would overwrite them leave them
//! alone.

use chrono::{DateTime, Utc};
use diesel::dsl::{delete, insert_into, now, update};
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::NewJob;
use diesel_jobs_core::flags::schedules::{OPERATORS, are_known};
use diesel_jobs_core::storage::{NewSchedule, Once, RequestKey, ScheduleChange, Scheduled};
use serde_json::json;

use super::super::enqueue_connection::insert_many;
use super::audit::record;
use super::audited::before;
use crate::changed_schedule::{Stored, changed, newest, reset};
use crate::operation::record::marked;
use crate::pg::native::RawJson;
use crate::pg::schema::schedule;

type Row = (String, String, String, String, Option<RawJson>, Option<String>, i32, bool);

/// Locks the row. Returns `Err` with the answer if there is none, or if it is not for this version.
async fn lock(conn: &mut AsyncPgConnection, name: &str) -> QueryResult<Result<(Stored, bool), Scheduled>> {
    let row: Option<Row> = schedule::table
        .find(name)
        .select((
            schedule::kind,
            schedule::expression,
            schedule::timezone,
            schedule::catch_up,
            schedule::declared,
            schedule::added_by,
            schedule::flags,
            schedule::paused,
        ))
        .for_no_key_update()
        .first(conn)
        .await
        .optional()?;
    let Some((kind, expression, timezone, catch_up, declared, added_by, flags, paused)) = row else {
        return Ok(Err(Scheduled::NotFound));
    };
    if !are_known(flags) {
        return Ok(Err(Scheduled::Newer));
    }
    let declared = declared.and_then(|RawJson(text)| serde_json::from_slice(&text).ok());
    // The check of the table allows only words that can be parsed.
    let catch_up = catch_up.parse().unwrap_or_default();
    let is_added = added_by.is_some();
    Ok(Ok((Stored { name: name.to_owned(), kind, expression, timezone, catch_up, declared, is_added, flags }, paused)))
}

pub(crate) async fn add(conn: &mut AsyncPgConnection, new: &NewSchedule, actor: &str) -> QueryResult<Scheduled> {
    let (new, actor) = (new.clone(), actor.to_owned());
    conn.transaction(async move |conn| {
        let row = (
            schedule::name.eq(&new.name),
            schedule::kind.eq(&new.kind),
            schedule::expression.eq(&new.expression),
            schedule::timezone.eq(&new.timezone),
            schedule::catch_up.eq(new.catch_up.as_str()),
            schedule::args.eq(new.job.args.as_ref().map(|args| RawJson(args.as_bytes().to_vec()))),
            schedule::queue.eq(&new.job.queue),
            schedule::priority.eq(new.job.priority),
            schedule::max_attempts.eq(new.job.max_attempts.map(|most| i16::try_from(most).unwrap_or(i16::MAX))),
            schedule::added_by.eq(&actor),
            schedule::flags.eq(OPERATORS),
        );
        if insert_into(schedule::table).values(row).on_conflict_do_nothing().execute(conn).await? == 0 {
            return Ok(Scheduled::Exists);
        }
        let detail = json!({ "kind": new.kind, "expression": new.expression, "timezone": new.timezone });
        record(conn, &actor, "add", &target(&new.name), Some(&detail)).await?;
        Ok(Scheduled::Done)
    })
    .await
}

pub(crate) async fn change(
    conn: &mut AsyncPgConnection,
    name: &str,
    change: &ScheduleChange,
    actor: &str,
) -> QueryResult<Scheduled> {
    let (name, change, actor) = (name.to_owned(), change.clone(), actor.to_owned());
    conn.transaction(async move |conn| {
        let (stored, _) = match lock(conn, &name).await? {
            Ok(stored) => stored,
            Err(answer) => return Ok(answer),
        };
        let Some(new) = changed(&stored, &change) else { return Ok(Scheduled::Unchanged) };
        let who =
            (schedule::changed_by.eq(Some(&actor)), schedule::changed_at.eq(now.into_sql::<Timestamptz>().nullable()));
        update(schedule::table.find(&name)).set(who).execute(conn).await?;
        store(conn, &stored, &new).await?;
        let detail = json!({ "expression": new.expression, "timezone": new.timezone, "catch_up": new.catch_up });
        record(conn, &actor, "change", &target(&name), Some(&detail)).await?;
        Ok(Scheduled::Done)
    })
    .await
}

pub(crate) async fn reset_to_declared(conn: &mut AsyncPgConnection, name: &str, actor: &str) -> QueryResult<Scheduled> {
    let (name, actor) = (name.to_owned(), actor.to_owned());
    conn.transaction(async move |conn| {
        let (stored, _) = match lock(conn, &name).await? {
            Ok(stored) => stored,
            Err(answer) => return Ok(answer),
        };
        let Some(new) = reset(&stored) else { return Ok(Scheduled::Unchanged) };
        let without_operator = (
            schedule::kind.eq(&new.kind),
            schedule::added_by.eq(None::<&str>),
            schedule::changed_by.eq(None::<&str>),
            schedule::changed_at.eq(None::<DateTime<Utc>>),
            schedule::args.eq(None::<RawJson>),
            schedule::queue.eq(None::<&str>),
            schedule::priority.eq(None::<i16>),
            schedule::max_attempts.eq(None::<i16>),
        );
        update(schedule::table.find(&name)).set(without_operator).execute(conn).await?;
        store(conn, &stored, &new).await?;
        record(conn, &actor, "reset", &target(&name), None).await?;
        Ok(Scheduled::Done)
    })
    .await
}

/// Stores when the schedule ticks. If its expression or time zone is another one, it continues from now, so that
/// earlier ticks are not missed ticks.
async fn store(conn: &mut AsyncPgConnection, old: &Stored, new: &Stored) -> QueryResult<()> {
    let row = schedule::table.find(&new.name);
    let declared = new.declared.as_ref().and_then(|declared| serde_json::to_vec(declared).ok()).map(RawJson);
    update(row)
        .set((
            schedule::expression.eq(&new.expression),
            schedule::timezone.eq(&new.timezone),
            schedule::catch_up.eq(new.catch_up.as_str()),
            schedule::declared.eq(declared),
            schedule::flags.eq(new.flags),
        ))
        .execute(conn)
        .await?;
    if !new.ticks_like(old) {
        update(row).set(schedule::last_tick.eq(now)).execute(conn).await?;
    }
    Ok(())
}

pub(crate) async fn pause(
    conn: &mut AsyncPgConnection,
    name: &str,
    actor: &str,
    reason: Option<&str>,
) -> QueryResult<Scheduled> {
    let (name, actor, reason) = (name.to_owned(), actor.to_owned(), reason.map(str::to_owned));
    conn.transaction(async move |conn| {
        match lock(conn, &name).await? {
            Ok((_, false)) => {}
            Ok((_, true)) => return Ok(Scheduled::Unchanged),
            Err(answer) => return Ok(answer),
        }
        let paused = (
            schedule::paused.eq(true),
            schedule::paused_at.eq(now.into_sql::<Timestamptz>().nullable()),
            schedule::paused_by.eq(&actor),
            schedule::paused_reason.eq(&reason),
        );
        update(schedule::table.find(&name)).set(paused).execute(conn).await?;
        record(conn, &actor, "pause", &target(&name), Some(&json!({ "reason": reason }))).await?;
        Ok(Scheduled::Done)
    })
    .await
}

pub(crate) async fn resume(conn: &mut AsyncPgConnection, name: &str, actor: &str) -> QueryResult<Scheduled> {
    let (name, actor) = (name.to_owned(), actor.to_owned());
    conn.transaction(async move |conn| {
        match lock(conn, &name).await? {
            Ok((_, true)) => {}
            Ok((_, false)) => return Ok(Scheduled::Unchanged),
            Err(answer) => return Ok(answer),
        }
        let resumed = (
            schedule::paused.eq(false),
            schedule::paused_at.eq(None::<DateTime<Utc>>),
            schedule::paused_by.eq(None::<&str>),
            schedule::paused_reason.eq(None::<&str>),
        );
        update(schedule::table.find(&name)).set(resumed).execute(conn).await?;
        record(conn, &actor, "resume", &target(&name), None).await?;
        Ok(Scheduled::Done)
    })
    .await
}

pub(crate) async fn remove(conn: &mut AsyncPgConnection, name: &str, actor: &str) -> QueryResult<Scheduled> {
    let (name, actor) = (name.to_owned(), actor.to_owned());
    conn.transaction(async move |conn| {
        match lock(conn, &name).await? {
            Ok((stored, _)) if stored.is_declared() => return Ok(Scheduled::Declared),
            Ok(_) => {}
            Err(answer) => return Ok(answer),
        }
        delete(schedule::table.find(&name)).execute(conn).await?;
        record(conn, &actor, "remove", &target(&name), None).await?;
        Ok(Scheduled::Done)
    })
    .await
}

pub(crate) async fn enqueue(
    conn: &mut AsyncPgConnection,
    name: &str,
    jobs: &[NewJob],
    action: &str,
    actor: &str,
) -> QueryResult<Scheduled> {
    let (name, action, actor) = (name.to_owned(), action.to_owned(), actor.to_owned());
    let jobs = jobs.to_vec();
    conn.transaction(async move |conn| insert(conn, &name, jobs, &action, &actor, None).await).await
}

/// [`enqueue`] for a request with a key, unless it was done before.
pub(crate) async fn enqueue_once(
    conn: &mut AsyncPgConnection,
    key: &RequestKey,
    name: &str,
    jobs: &[NewJob],
    action: &str,
    actor: &str,
) -> QueryResult<Once<Scheduled>> {
    let (name, action, actor) = (name.to_owned(), action.to_owned(), actor.to_owned());
    let (key, jobs) = (*key, jobs.to_vec());
    conn.transaction(async move |conn| {
        if let Some(before) = before(conn, &key).await? {
            return Ok(Once::Before(before));
        }
        insert(conn, &name, jobs, &action, &actor, Some(&key)).await.map(Once::Now)
    })
    .await
}

async fn insert(
    conn: &mut AsyncPgConnection,
    name: &str,
    jobs: Vec<NewJob>,
    action: &str,
    actor: &str,
    key: Option<&RequestKey>,
) -> QueryResult<Scheduled> {
    if let Err(answer) = lock(conn, name).await? {
        return Ok(answer);
    }
    let detail = marked(json!({ "jobs": jobs.len() }), key);
    let enqueued = insert_many::<AsyncPgConnection>(conn, jobs).await?;
    if let Some(newest) = newest(&enqueued) {
        let at = schedule::last_run_at.eq(now.into_sql::<Timestamptz>().nullable());
        update(schedule::table.find(name)).set((schedule::last_job.eq(newest), at)).execute(conn).await?;
    }
    record(conn, actor, action, &target(name), Some(&detail)).await?;
    Ok(Scheduled::Done)
}

fn target(name: &str) -> String {
    format!("schedule {name}")
}
