//! What operators do with schedules: `add`, `change`, `reset`, `pause`, `resume`, `remove`, `enqueue`. Rows that an
//! operator has added or changed have [`OPERATORS`], so that programs that would overwrite them leave them alone.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::flags::schedules::{OPERATORS, are_known};
use diesel_jobs_core::storage::{NewSchedule, Once, RequestKey, ScheduleChange, Scheduled};
use diesel_jobs_core::{Enqueued, NewJob};
use serde_json::json;

use crate::changed_schedule::{Stored, changed, newest, reset};
use crate::operation::record::marked;
use crate::sqlite::queries::audit::record;
use crate::sqlite::queries::audited::before;
use crate::sqlite::schema::jobs_schedule;
use crate::sqlite::sync_connection::insert_jobs;
use crate::sqlite::time::Now;

type Row = (String, String, String, String, Option<String>, Option<String>, i32, bool);

/// Reads the row. Returns `Err` with the answer if there is none, or if it is not for this version.
fn read(conn: &mut SqliteConnection, name: &str) -> QueryResult<Result<(Stored, bool), Scheduled>> {
    let row: Option<Row> = jobs_schedule::table
        .find(name)
        .select((
            jobs_schedule::kind,
            jobs_schedule::expression,
            jobs_schedule::timezone,
            jobs_schedule::catch_up,
            jobs_schedule::declared,
            jobs_schedule::added_by,
            jobs_schedule::flags,
            jobs_schedule::paused,
        ))
        .first(conn)
        .optional()?;
    let Some((kind, expression, timezone, catch_up, declared, added_by, flags, paused)) = row else {
        return Ok(Err(Scheduled::NotFound));
    };
    if !are_known(flags) {
        return Ok(Err(Scheduled::Newer));
    }
    let declared = declared.and_then(|text| serde_json::from_str(&text).ok());
    // The check in the schema allows only words that can be parsed.
    let catch_up = catch_up.parse().unwrap_or_default();
    let is_added = added_by.is_some();
    Ok(Ok((Stored { name: name.to_owned(), kind, expression, timezone, catch_up, declared, is_added, flags }, paused)))
}

pub(crate) fn add(conn: &mut SqliteConnection, new: &NewSchedule, actor: &str) -> QueryResult<Scheduled> {
    let row = (
        jobs_schedule::name.eq(&new.name),
        jobs_schedule::kind.eq(&new.kind),
        jobs_schedule::expression.eq(&new.expression),
        jobs_schedule::timezone.eq(&new.timezone),
        jobs_schedule::catch_up.eq(new.catch_up.as_str()),
        jobs_schedule::args.eq(&new.job.args),
        jobs_schedule::queue.eq(&new.job.queue),
        jobs_schedule::priority.eq(new.job.priority),
        jobs_schedule::max_attempts.eq(new.job.max_attempts.map(i32::from)),
        jobs_schedule::added_by.eq(actor),
        jobs_schedule::flags.eq(OPERATORS),
    );
    if diesel::insert_or_ignore_into(jobs_schedule::table).values(row).execute(conn)? == 0 {
        return Ok(Scheduled::Exists);
    }
    let detail = json!({ "kind": new.kind, "expression": new.expression, "timezone": new.timezone });
    record(conn, actor, "add", &target(&new.name), Some(&detail))?;
    Ok(Scheduled::Done)
}

pub(crate) fn change(
    conn: &mut SqliteConnection,
    name: &str,
    change: &ScheduleChange,
    actor: &str,
) -> QueryResult<Scheduled> {
    let (stored, _) = match read(conn, name)? {
        Ok(stored) => stored,
        Err(answer) => return Ok(answer),
    };
    let Some(new) = changed(&stored, change) else { return Ok(Scheduled::Unchanged) };
    diesel::update(jobs_schedule::table.find(name))
        .set((jobs_schedule::changed_by.eq(actor), jobs_schedule::changed_at.eq(Now.nullable())))
        .execute(conn)?;
    store(conn, &stored, &new)?;
    let detail = json!({ "expression": new.expression, "timezone": new.timezone, "catch_up": new.catch_up });
    record(conn, actor, "change", &target(name), Some(&detail))?;
    Ok(Scheduled::Done)
}

pub(crate) fn reset_to_declared(conn: &mut SqliteConnection, name: &str, actor: &str) -> QueryResult<Scheduled> {
    let (stored, _) = match read(conn, name)? {
        Ok(stored) => stored,
        Err(answer) => return Ok(answer),
    };
    let Some(new) = reset(&stored) else { return Ok(Scheduled::Unchanged) };
    diesel::update(jobs_schedule::table.find(name))
        .set((
            jobs_schedule::kind.eq(&new.kind),
            jobs_schedule::added_by.eq(None::<&str>),
            jobs_schedule::changed_by.eq(None::<&str>),
            jobs_schedule::changed_at.eq(None::<i64>),
            jobs_schedule::args.eq(None::<&str>),
            jobs_schedule::queue.eq(None::<&str>),
            jobs_schedule::priority.eq(None::<i16>),
            jobs_schedule::max_attempts.eq(None::<i32>),
        ))
        .execute(conn)?;
    store(conn, &stored, &new)?;
    record(conn, actor, "reset", &target(name), None)?;
    Ok(Scheduled::Done)
}

/// Stores when the schedule ticks. If its expression or time zone is another one, it continues from now, so that
/// earlier ticks are not missed ticks.
fn store(conn: &mut SqliteConnection, old: &Stored, new: &Stored) -> QueryResult<()> {
    let row = jobs_schedule::table.find(&new.name);
    let declared = new.declared.as_ref().and_then(|declared| serde_json::to_string(declared).ok());
    diesel::update(row)
        .set((
            jobs_schedule::expression.eq(&new.expression),
            jobs_schedule::timezone.eq(&new.timezone),
            jobs_schedule::catch_up.eq(new.catch_up.as_str()),
            jobs_schedule::declared.eq(declared),
            jobs_schedule::flags.eq(new.flags),
        ))
        .execute(conn)?;
    if !new.ticks_like(old) {
        diesel::update(row).set(jobs_schedule::last_tick.eq(Now)).execute(conn)?;
    }
    Ok(())
}

pub(crate) fn pause(
    conn: &mut SqliteConnection,
    name: &str,
    actor: &str,
    reason: Option<&str>,
) -> QueryResult<Scheduled> {
    match read(conn, name)? {
        Ok((_, false)) => {}
        Ok((_, true)) => return Ok(Scheduled::Unchanged),
        Err(answer) => return Ok(answer),
    }
    diesel::update(jobs_schedule::table.find(name))
        .set((
            jobs_schedule::paused.eq(true),
            jobs_schedule::paused_at.eq(Now.nullable()),
            jobs_schedule::paused_by.eq(actor),
            jobs_schedule::paused_reason.eq(reason),
        ))
        .execute(conn)?;
    record(conn, actor, "pause", &target(name), Some(&json!({ "reason": reason })))?;
    Ok(Scheduled::Done)
}

pub(crate) fn resume(conn: &mut SqliteConnection, name: &str, actor: &str) -> QueryResult<Scheduled> {
    match read(conn, name)? {
        Ok((_, true)) => {}
        Ok((_, false)) => return Ok(Scheduled::Unchanged),
        Err(answer) => return Ok(answer),
    }
    diesel::update(jobs_schedule::table.find(name))
        .set((
            jobs_schedule::paused.eq(false),
            jobs_schedule::paused_at.eq(None::<i64>),
            jobs_schedule::paused_by.eq(None::<&str>),
            jobs_schedule::paused_reason.eq(None::<&str>),
        ))
        .execute(conn)?;
    record(conn, actor, "resume", &target(name), None)?;
    Ok(Scheduled::Done)
}

pub(crate) fn remove(conn: &mut SqliteConnection, name: &str, actor: &str) -> QueryResult<Scheduled> {
    match read(conn, name)? {
        Ok((stored, _)) if stored.is_declared() => return Ok(Scheduled::Declared),
        Ok(_) => {}
        Err(answer) => return Ok(answer),
    }
    diesel::delete(jobs_schedule::table.find(name)).execute(conn)?;
    record(conn, actor, "remove", &target(name), None)?;
    Ok(Scheduled::Done)
}

pub(crate) fn enqueue(
    conn: &mut SqliteConnection,
    name: &str,
    jobs: &[NewJob],
    action: &str,
    actor: &str,
    key: Option<&RequestKey>,
) -> QueryResult<Scheduled> {
    if let Err(answer) = read(conn, name)? {
        return Ok(answer);
    }
    let enqueued = insert_jobs(conn, jobs.to_vec())?;
    store_last_run(conn, name, &enqueued)?;
    record(conn, actor, action, &target(name), Some(&marked(json!({ "jobs": jobs.len() }), key)))?;
    Ok(Scheduled::Done)
}

/// [`enqueue`] for a request with a key, unless it was done before.
pub(crate) fn enqueue_once(
    conn: &mut SqliteConnection,
    key: &RequestKey,
    name: &str,
    jobs: &[NewJob],
    action: &str,
    actor: &str,
) -> QueryResult<Once<Scheduled>> {
    match before(conn, key)? {
        Some(before) => Ok(Once::Before(before)),
        None => enqueue(conn, name, jobs, action, actor, Some(key)).map(Once::Now),
    }
}

fn target(name: &str) -> String {
    format!("schedule {name}")
}

/// Stores the newest of these jobs as the last run of the schedule.
pub(super) fn store_last_run(conn: &mut SqliteConnection, name: &str, enqueued: &[Enqueued]) -> QueryResult<()> {
    let Some(newest) = newest(enqueued) else { return Ok(()) };
    let last_run = (jobs_schedule::last_job.eq(newest), jobs_schedule::last_run_at.eq(Now.nullable()));
    diesel::update(jobs_schedule::table.find(name)).set(last_run).execute(conn)?;
    Ok(())
}
