//! `list_schedules`: the schedules as operators see them, with the state of the newest job of each.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::dsl::now;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::flags::schedules::are_known;
use diesel_jobs_core::storage::{DeclaredSchedule, LastRun, ScheduleRecord, ScheduledJob};
use diesel_jobs_core::{JobId, JobState};

use super::by_id::{by_id, wanted};
use super::pause::{PauseRow, pause};
use super::schedule::job;
use crate::pg::native::RawJson;
use crate::pg::schema::{job, schedule};

#[derive(Queryable, Selectable)]
#[diesel(table_name = schedule)]
struct Row {
    name: String,
    kind: String,
    expression: String,
    timezone: String,
    catch_up: String,
    last_tick: DateTime<Utc>,
    last_job: Option<i64>,
    last_run_at: Option<DateTime<Utc>>,
    flags: i32,
    args: Option<RawJson>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<i16>,
    added_by: Option<String>,
    changed_by: Option<String>,
    changed_at: Option<DateTime<Utc>>,
    declared: Option<RawJson>,
    paused: bool,
    paused_at: Option<DateTime<Utc>>,
    paused_by: Option<String>,
    paused_reason: Option<String>,
}

pub(crate) async fn list(conn: &mut AsyncPgConnection) -> QueryResult<(Vec<ScheduleRecord>, DateTime<Utc>)> {
    let rows: Vec<Row> = schedule::table.order(schedule::name).select(Row::as_select()).load(conn).await?;
    let at: DateTime<Utc> = diesel::select(now.into_sql::<Timestamptz>()).get_result(conn).await?;
    let ids: Vec<i64> = rows.iter().filter_map(|row| row.last_job).collect();
    let one = job::table.filter(job::id.eq(wanted())).select((job::id, job::state));
    let states: Vec<(i64, String)> = by_id(&ids, one).load(conn).await?;
    let states = states.into_iter().filter_map(|(id, state)| Some((id, state.parse().ok()?))).collect();
    Ok((rows.into_iter().map(|row| record(row, &states)).collect(), at))
}

fn record(row: Row, states: &HashMap<i64, JobState>) -> ScheduleRecord {
    let paused: PauseRow = (row.paused, row.paused_at, row.paused_by, row.paused_reason);
    let declared = row.declared.and_then(|RawJson(text)| serde_json::from_slice::<DeclaredSchedule>(&text).ok());
    let job: ScheduledJob = job((row.args, row.queue, row.priority, row.max_attempts));
    let last_run = row.last_job.zip(row.last_run_at);
    let last_run = last_run.map(|(id, at)| LastRun { job: JobId(id), at, state: states.get(&id).copied() });
    ScheduleRecord {
        last_run,
        declared: declared.map(|declared| DeclaredSchedule { name: row.name.clone(), ..declared }),
        name: row.name,
        kind: row.kind,
        expression: row.expression,
        timezone: row.timezone,
        // The check of the table allows only words that can be parsed.
        catch_up: row.catch_up.parse().unwrap_or_default(),
        last_tick: row.last_tick,
        job,
        paused: pause(paused),
        added_by: row.added_by,
        changed_by: row.changed_by,
        changed_at: row.changed_at,
        newer: !are_known(row.flags),
    }
}
