//! `list_schedules`: the schedules as operators see them. The results come from the newest ten thousand jobs. These are
//! read by id from the end, because there is no index by kind.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_jobs_core::JobState;
use diesel_jobs_core::flags::schedules::are_known;
use diesel_jobs_core::storage::{DeclaredSchedule, ScheduleRecord};

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
struct Newest {
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Text)]
    state: String,
}

pub(crate) fn list(conn: &mut SqliteConnection) -> QueryResult<(Vec<ScheduleRecord>, DateTime<Utc>)> {
    let rows: Vec<Row> = jobs_schedule::table.order(jobs_schedule::name).select(Row::as_select()).load(conn)?;
    let now: Instant = diesel::select(Now).get_result(conn)?;
    // With `max`, SQLite takes the other columns from the row that has the maximum.
    let newest: Vec<Newest> = sql_query(
        "select kind, state, max(id) from (select id, kind, state from jobs_job_view order by id desc limit 10000)
         where kind in (select kind from jobs_schedule) group by kind",
    )
    .load(conn)?;
    let results: HashMap<String, JobState> =
        newest.into_iter().filter_map(|newest| Some((newest.kind, newest.state.parse().ok()?))).collect();
    Ok((rows.into_iter().map(|row| record(row, &results)).collect(), now.0))
}

fn record(row: Row, results: &HashMap<String, JobState>) -> ScheduleRecord {
    let paused: PauseRow = (row.paused, row.paused_at, row.paused_by, row.paused_reason);
    let declared = row.declared.and_then(|text| serde_json::from_str::<DeclaredSchedule>(&text).ok());
    ScheduleRecord {
        last_result: results.get(&row.kind).copied(),
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
