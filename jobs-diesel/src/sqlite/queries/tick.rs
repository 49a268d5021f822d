//! `tick`: stores the last tick of a schedule and enqueues the jobs of its ticks, if no other worker has done so.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::NewJob;
use diesel_jobs_core::storage::StoredSchedule;

use crate::flags::ScheduleFlagsKnown;
use crate::sqlite::queries::change_schedule::store_last_run;
use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::schema::jobs_schedule;
use crate::sqlite::sync_connection::insert_jobs;
use crate::sqlite::types::Instant;

pub(crate) fn tick(
    conn: &mut SqliteConnection,
    schedule: &StoredSchedule,
    last_tick: DateTime<Utc>,
    jobs: &[NewJob],
) -> QueryResult<bool> {
    if is_frozen(conn)? {
        return Ok(false);
    }
    let unchanged = jobs_schedule::table
        .find(&schedule.name)
        .filter(jobs_schedule::last_tick.eq(Instant(schedule.last_tick)))
        .filter(jobs_schedule::paused.eq(false))
        .filter(ScheduleFlagsKnown("jobs_schedule"));
    let moved = diesel::update(unchanged).set(jobs_schedule::last_tick.eq(Instant(last_tick))).execute(conn)?;
    if moved == 0 {
        return Ok(false);
    }
    let enqueued = insert_jobs(conn, jobs.to_vec())?;
    store_last_run(conn, &schedule.name, &enqueued)?;
    Ok(true)
}
