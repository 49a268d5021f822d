//! Schedules: stores those that the code declares, and reads them for the scheduler.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::not;
use diesel::prelude::*;
use diesel::result::Error;
use diesel_jobs_core::CatchUp;
use diesel_jobs_core::storage::{Declarations, is_declared_so};
use diesel_jobs_core::storage::{DeclaredSchedule, ScheduledJob, StoredSchedule};

use super::worker::ticking;
use crate::flags::ScheduleFlagsKnown;
use crate::sqlite::schema::{jobs_schedule, jobs_worker};
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, count};

/// Those of the declared schedules that must be stored. A schedule that a live worker declares as it is stored stays.
pub(crate) fn to_declare(
    conn: &mut SqliteConnection,
    declared: Vec<DeclaredSchedule>,
) -> QueryResult<Vec<DeclaredSchedule>> {
    // A schedule with an unknown flag was declared by a later version, so this version does not change it.
    let newer = jobs_schedule::table.filter(not(ScheduleFlagsKnown("jobs_schedule"))).select(jobs_schedule::name);
    let newer: Vec<String> = newer.load(conn)?;
    let mut wanted = Vec::new();
    for schedule in declared.into_iter().filter(|schedule| !newer.contains(&schedule.name)) {
        let stands = match operators(conn, &schedule.name)? {
            Some(known) => known.is_some_and(|known| text(&schedule).is_ok_and(|text| text == known)),
            None => is_wanted_as_stored(conn, &schedule)?,
        };
        if !stands {
            wanted.push(schedule);
        }
    }
    Ok(wanted)
}

/// Stores a declared schedule. An unchanged one keeps its last tick.
pub(crate) fn declare(conn: &mut SqliteConnection, schedule: &DeclaredSchedule) -> QueryResult<()> {
    if operators(conn, &schedule.name)?.is_some() {
        return declare_beside(conn, schedule);
    }
    insert(conn, schedule)?;
    if is_wanted_as_stored(conn, schedule)? { Ok(()) } else { move_on_if_changed(conn, schedule) }
}

/// If an operator has added or changed the schedule, what the code declares as far as it is known.
fn operators(conn: &mut SqliteConnection, name: &str) -> QueryResult<Option<Option<String>>> {
    let is_operators = jobs_schedule::added_by.is_not_null().or(jobs_schedule::changed_by.is_not_null());
    jobs_schedule::table.find(name).filter(is_operators).select(jobs_schedule::declared).first(conn).optional()
}

/// Whether the schedule is as declared, or as a live worker declares it.
fn is_wanted_as_stored(conn: &mut SqliteConnection, schedule: &DeclaredSchedule) -> QueryResult<bool> {
    let columns = (jobs_schedule::expression, jobs_schedule::timezone, jobs_schedule::catch_up);
    let row = jobs_schedule::table.find(&schedule.name).select(columns);
    let Some((expression, timezone, catch_up)) = row.first::<(String, String, String)>(conn).optional()? else {
        return Ok(false);
    };
    let stored = (&*expression, &*timezone, &*catch_up);
    if schedule.ticks_like(stored.0, stored.1, stored.2) {
        return Ok(true);
    }
    let declared: Vec<Option<String>> = ticking().select(jobs_worker::schedules).load(conn)?;
    let declared: Vec<Declarations> =
        declared.into_iter().flatten().filter_map(|text| serde_json::from_str(&text).ok()).collect();
    Ok(is_declared_so(&declared, &schedule.name, stored))
}

fn text(schedule: &DeclaredSchedule) -> QueryResult<String> {
    serde_json::to_string(schedule).map_err(|error| Error::SerializationError(error.into()))
}

/// Stores what the code declares beside what an operator has added or changed.
fn declare_beside(conn: &mut SqliteConnection, schedule: &DeclaredSchedule) -> QueryResult<()> {
    let text = text(schedule)?;
    let other = jobs_schedule::table.find(&schedule.name).filter(jobs_schedule::declared.is_not(&text));
    diesel::update(other).set(jobs_schedule::declared.eq(&text)).execute(conn).map(drop)
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

/// Stores a changed schedule. If its expression or its time zone has changed, its last tick becomes the current time.
/// Otherwise earlier ticks of the new expression would count as missed ticks.
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

type JobRow = (Option<String>, Option<String>, Option<i16>, Option<i32>);
type OperatorsRow = (Option<String>, Option<String>);
type Row = (String, String, String, String, String, Instant, bool, OperatorsRow, JobRow);

/// What the jobs of a schedule get.
pub(super) fn job((args, queue, priority, max_attempts): JobRow) -> ScheduledJob {
    ScheduledJob { args, queue, priority, max_attempts: max_attempts.map(|most| count(most).max(1)) }
}

/// Returns all schedules that this version understands, ordered by name, and the current time.
pub(crate) fn schedules(conn: &mut SqliteConnection) -> QueryResult<(Vec<StoredSchedule>, DateTime<Utc>)> {
    let rows = jobs_schedule::table
        .filter(ScheduleFlagsKnown("jobs_schedule"))
        .order(jobs_schedule::name)
        .select((
            jobs_schedule::name,
            jobs_schedule::kind,
            jobs_schedule::expression,
            jobs_schedule::timezone,
            jobs_schedule::catch_up,
            jobs_schedule::last_tick,
            jobs_schedule::paused,
            (jobs_schedule::added_by, jobs_schedule::changed_by),
            (jobs_schedule::args, jobs_schedule::queue, jobs_schedule::priority, jobs_schedule::max_attempts),
        ))
        .load::<Row>(conn)?;
    let now: Instant = diesel::select(Now).get_result(conn)?;
    let schedules = rows
        .into_iter()
        .map(|(name, kind, expression, timezone, catch_up, last_tick, paused, (added_by, changed_by), job_row)| {
            // The check in the schema allows only words that can be parsed.
            let catch_up = catch_up.parse().unwrap_or(CatchUp::Skip);
            let (last_tick, job) = (last_tick.0, job(job_row));
            let (is_added, is_changed) = (added_by.is_some(), changed_by.is_some());
            StoredSchedule { name, kind, expression, timezone, catch_up, last_tick, paused, is_added, is_changed, job }
        })
        .collect();
    Ok((schedules, now.0))
}
