//! `list_schedules`: the schedules as operators see them. The results come from the newest ten thousand jobs. These are
//! read by id from the end, because there is no index by kind.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::dsl::now;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, Text, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::JobState;
use diesel_jobs_core::flags::schedules::are_known;
use diesel_jobs_core::storage::{DeclaredSchedule, ScheduleRecord, ScheduledJob};

use super::pause::{PauseRow, pause};
use super::schedule::job;
use crate::pg::native::RawJson;
use crate::pg::schema::schedule;

#[derive(Queryable, Selectable)]
#[diesel(table_name = schedule)]
struct Row {
    name: String,
    kind: String,
    expression: String,
    timezone: String,
    catch_up: String,
    last_tick: DateTime<Utc>,
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

#[derive(QueryableByName)]
struct Newest {
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Text)]
    state: String,
}

pub(crate) async fn list(conn: &mut AsyncPgConnection) -> QueryResult<(Vec<ScheduleRecord>, DateTime<Utc>)> {
    let rows: Vec<Row> = schedule::table.order(schedule::name).select(Row::as_select()).load(conn).await?;
    let at: DateTime<Utc> = diesel::select(now.into_sql::<Timestamptz>()).get_result(conn).await?;
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    let newest: Vec<Newest> = sql_query(
        "select distinct on (kind) kind, state from (select id, kind, state from jobs.job order by id desc limit 10000) job
         where kind = any($1) order by kind, id desc",
    )
    .bind::<Array<Text>, _>(kinds)
    .load(conn)
    .await?;
    let results: HashMap<String, JobState> =
        newest.into_iter().filter_map(|newest| Some((newest.kind, newest.state.parse().ok()?))).collect();
    Ok((rows.into_iter().map(|row| record(row, &results)).collect(), at))
}

fn record(row: Row, results: &HashMap<String, JobState>) -> ScheduleRecord {
    let paused: PauseRow = (row.paused, row.paused_at, row.paused_by, row.paused_reason);
    let declared = row.declared.and_then(|RawJson(text)| serde_json::from_slice::<DeclaredSchedule>(&text).ok());
    let job: ScheduledJob = job((row.args, row.queue, row.priority, row.max_attempts));
    ScheduleRecord {
        last_result: results.get(&row.kind).copied(),
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
