//! Schedules: what code declares, what the scheduler reads.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::not;
use diesel::prelude::*;
use diesel_jobs_core::CatchUp;
use diesel_jobs_core::storage::{DeclaredSchedule, StoredSchedule};

use crate::flags::FlagsKnown;
use crate::sqlite::schema::jobs_schedule;
use crate::sqlite::time::Now;
use crate::sqlite::types::Instant;

/// Stores the declared schedules. Unchanged ones keep their last tick.
pub(crate) fn declare(conn: &mut SqliteConnection, declared: &[DeclaredSchedule]) -> QueryResult<()> {
    // What a later version declares about a schedule is not this one's to change.
    let newer = jobs_schedule::table.filter(not(FlagsKnown("jobs_schedule"))).select(jobs_schedule::name);
    let newer: Vec<String> = newer.load(conn)?;
    for schedule in declared.iter().filter(|schedule| !newer.contains(&schedule.name)) {
        insert(conn, schedule)?;
        move_on_if_changed(conn, schedule)?;
    }
    Ok(())
}

fn insert(conn: &mut SqliteConnection, schedule: &DeclaredSchedule) -> QueryResult<()> {
    diesel::insert_or_ignore_into(jobs_schedule::table)
        .values((
            jobs_schedule::name.eq(&schedule.name),
            jobs_schedule::kind.eq(&schedule.name),
            jobs_schedule::expression.eq(&schedule.expression),
            jobs_schedule::timezone.eq(&schedule.timezone),
            jobs_schedule::catch_up.eq(schedule.catch_up.as_str()),
        ))
        .execute(conn)
        .map(drop)
}

/// A changed expression goes on from now: its ticks of the past were never promised.
fn move_on_if_changed(conn: &mut SqliteConnection, schedule: &DeclaredSchedule) -> QueryResult<()> {
    let stored = jobs_schedule::table.find(&schedule.name);
    let changed = jobs_schedule::expression.ne(&schedule.expression).or(jobs_schedule::timezone.ne(&schedule.timezone));
    diesel::update(stored.filter(changed))
        .set((
            jobs_schedule::expression.eq(&schedule.expression),
            jobs_schedule::timezone.eq(&schedule.timezone),
            jobs_schedule::last_tick.eq(Now),
        ))
        .execute(conn)?;
    diesel::update(stored).set(jobs_schedule::catch_up.eq(schedule.catch_up.as_str())).execute(conn).map(drop)
}

/// All schedules by name, and the time.
pub(crate) fn schedules(conn: &mut SqliteConnection) -> QueryResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
    let rows = jobs_schedule::table
        .filter(FlagsKnown("jobs_schedule"))
        .order(jobs_schedule::name)
        .select((
            jobs_schedule::name,
            jobs_schedule::kind,
            jobs_schedule::expression,
            jobs_schedule::timezone,
            jobs_schedule::catch_up,
            jobs_schedule::last_tick,
            jobs_schedule::paused,
        ))
        .load::<(String, String, String, String, String, Instant, bool)>(conn)?;
    let now: Instant = diesel::select(Now).get_result(conn)?;
    let schedules = rows
        .into_iter()
        .map(|(name, kind, expression, timezone, catch_up, last_tick, paused)| {
            // The schema takes no other words than these.
            let catch_up = catch_up.parse().unwrap_or(CatchUp::Skip);
            StoredSchedule { name, kind, expression, timezone, catch_up, last_tick: last_tick.0, paused }
        })
        .collect();
    Ok((schedules, now.0))
}
