//! `list_schedules`: the schedules as operators see them, with the state of the newest job of each.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::flags::schedules::are_known;
use diesel_jobs_core::storage::{DeclaredSchedule, LastRun, ScheduleRecord};
use diesel_jobs_core::{JobId, JobState};

use crate::sqlite::queries::pause::{PauseRow, pause};
use crate::sqlite::queries::schedule::job;
use crate::sqlite::schema::jobs_schedule;
use crate::sqlite::time::Now;
use crate::sqlite::types::Instant;

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_schedule)]
struct Row {
    name: String,
    kind: String,
    expression: String,
    timezone: String,
    catch_up: String,
    last_tick: Instant,
    last_job: Option<i64>,
    last_run_at: Option<Instant>,
    flags: i32,
    args: Option<String>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<i32>,
    added_by: Option<String>,
    changed_by: Option<String>,
    changed_at: Option<Instant>,
    declared: Option<String>,
    paused: bool,
    paused_at: Option<Instant>,
    paused_by: Option<String>,
    paused_reason: Option<String>,
}

#[derive(QueryableByName)]
struct JobRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    state: String,
}

pub(crate) fn list(conn: &mut SqliteConnection) -> QueryResult<(Vec<ScheduleRecord>, DateTime<Utc>)> {
    let rows: Vec<Row> = jobs_schedule::table.order(jobs_schedule::name).select(Row::as_select()).load(conn)?;
    let now: Instant = diesel::select(Now).get_result(conn)?;
    let states: Vec<JobRow> =
        sql_query("select j.id, j.state from jobs_schedule s cross join jobs_job_view j on j.id = s.last_job")
            .load(conn)?;
    let states = states.into_iter().filter_map(|row| Some((row.id, row.state.parse().ok()?))).collect();
    Ok((rows.into_iter().map(|row| record(row, &states)).collect(), now.0))
}

fn record(row: Row, states: &HashMap<i64, JobState>) -> ScheduleRecord {
    let paused: PauseRow = (row.paused, row.paused_at, row.paused_by, row.paused_reason);
    let declared = row.declared.and_then(|text| serde_json::from_str::<DeclaredSchedule>(&text).ok());
    let last_run = row.last_job.zip(row.last_run_at);
    let last_run = last_run.map(|(id, at)| LastRun { job: JobId(id), at: at.0, state: states.get(&id).copied() });
    ScheduleRecord {
        last_run,
        declared: declared.map(|declared| DeclaredSchedule { name: row.name.clone(), ..declared }),
        name: row.name,
        kind: row.kind,
        expression: row.expression,
        timezone: row.timezone,
        // The check in the schema allows only words that can be parsed.
        catch_up: row.catch_up.parse().unwrap_or_default(),
        last_tick: row.last_tick.0,
        job: job((row.args, row.queue, row.priority, row.max_attempts)),
        paused: pause(paused),
        added_by: row.added_by,
        changed_by: row.changed_by,
        changed_at: row.changed_at.map(|at| at.0),
        newer: !are_known(row.flags),
    }
}
