//! Schedules: stores those that the code declares, and reads them for the scheduler.

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
    // A schedule with an unknown flag was declared by a later version, so this version does not change it.
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

/// Stores a changed schedule. If its expression or its time zone has changed, its last tick is now, so that earlier
/// ticks of the new expression are not missed ticks.
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

/// Returns all schedules that this version understands, ordered by name, and the current time.
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
            // The check in the schema allows only words that can be parsed.
            let catch_up = catch_up.parse().unwrap_or(CatchUp::Skip);
            StoredSchedule { name, kind, expression, timezone, catch_up, last_tick: last_tick.0, paused }
        })
        .collect();
    Ok((schedules, now.0))
}
