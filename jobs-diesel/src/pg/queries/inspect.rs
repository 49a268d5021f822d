//! `list`, `show`, `stats`, `workers`: the queries of operators. They read jobs through the view.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::dsl::{AsSelect, sql};
use diesel::expression::SqlLiteral;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Double, Nullable};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{
    AttemptError, FailureKind, JobId, JobRecord, JobState, KindStats, Rules, Traceparent, WorkerId, WorkerRecord,
};
use uuid::Uuid;

use super::by_id::{by_id, wanted};
use crate::kind_stats::{StatsRow, kind_stats};
use crate::pg::native::RawJson;
use crate::pg::schema::{job, job_error, worker};

#[derive(Queryable, Selectable)]
#[diesel(table_name = job, check_for_backend(Pg))]
pub(crate) struct JobRow {
    id: i64,
    kind: String,
    queue: String,
    state: String,
    priority: i16,
    attempt: i32,
    max_attempts: i32,
    crashes: i32,
    run_at: DateTime<Utc>,
    enqueued_at: DateTime<Utc>,
    claimed_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    worker: Option<Uuid>,
    tags: Vec<String>,
    args: RawJson,
    last_error: Option<String>,
    flags: i32,
    traceparent: Option<String>,
    rules: Option<RawJson>,
}

/// A count. The ranges of the columns fit into the type. A negative number would become 0.
fn count(number: i32) -> u16 {
    u16::try_from(number).unwrap_or_default()
}

/// The view returns only words that can be parsed.
pub(crate) fn parsed(state: &str) -> JobState {
    state.parse().unwrap_or(JobState::Available)
}

impl From<JobRow> for JobRecord {
    fn from(row: JobRow) -> Self {
        Self {
            id: JobId(row.id),
            kind: row.kind,
            queue: row.queue,
            state: parsed(&row.state),
            priority: row.priority,
            attempt: count(row.attempt),
            max_attempts: count(row.max_attempts),
            crashes: count(row.crashes),
            run_at: row.run_at,
            enqueued_at: row.enqueued_at,
            claimed_at: row.claimed_at,
            finished_at: row.finished_at,
            worker: row.worker.map(WorkerId),
            tags: row.tags,
            args: String::from_utf8_lossy(&row.args.0).into_owned(),
            last_error: row.last_error,
            flags: row.flags,
            traceparent: row.traceparent.as_deref().and_then(Traceparent::parse),
            rules: row.rules.and_then(|RawJson(rules)| Rules::read(&rules).ok()).unwrap_or_default(),
        }
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = job_error, check_for_backend(Pg))]
struct ErrorRow {
    attempt: i16,
    kind: String,
    message: String,
    worker: Option<Uuid>,
    started_at: Option<DateTime<Utc>>,
    at: DateTime<Utc>,
    fingerprint: Option<i64>,
    place: Option<String>,
    backtrace: Option<String>,
    actor: Option<String>,
}

impl From<ErrorRow> for AttemptError {
    fn from(row: ErrorRow) -> Self {
        Self {
            attempt: row.attempt.unsigned_abs(),
            kind: FailureKind::parse(&row.kind),
            message: row.message,
            worker: row.worker.map(WorkerId),
            started_at: row.started_at,
            at: row.at,
            fingerprint: row.fingerprint,
            place: row.place,
            backtrace: row.backtrace,
            actor: row.actor,
        }
    }
}

/// The waiting jobs in the order of a claim, as a query for sync and async connections.
#[cfg(feature = "testing")]
macro_rules! waiting {
    ($among:expr) => {{
        use $crate::pg::queries::inspect::JobRow;
        use $crate::pg::schema::job;
        let (newer_than, other) = $among.ids();
        job::table
            .filter(job::id.gt(newer_than).or(job::id.eq(other)))
            .filter(job::state.eq_any(["available", "scheduled", "retrying", "held"]))
            .order((job::priority.desc(), job::run_at, job::id))
            .select(JobRow::as_select())
    }};
}
#[cfg(feature = "testing")]
pub(crate) use waiting;

/// Returns those of these jobs that exist, in this order.
pub(crate) async fn list(conn: &mut AsyncPgConnection, ids: &[i64]) -> QueryResult<Vec<JobRecord>> {
    let rows: Vec<JobRow> = by_id(ids, one()).load(conn).await?;
    let mut rows: HashMap<i64, JobRow> = rows.into_iter().map(|row| (row.id, row)).collect();
    Ok(ids.iter().filter_map(|id| rows.remove(id)).map(JobRow::into).collect())
}

/// The query for one job, for [`by_id`].
#[diesel::dsl::auto_type(no_type_alias)]
pub(crate) fn one() -> _ {
    let row: AsSelect<JobRow, Pg> = JobRow::as_select();
    let wanted: SqlLiteral<BigInt> = wanted();
    job::table.filter(job::id.eq(wanted)).select(row)
}

/// Returns those of these jobs that exist, with their failures. Each job comes once, in the order of `ids`.
pub(crate) async fn show(
    conn: &mut AsyncPgConnection,
    ids: &[JobId],
) -> QueryResult<Vec<(JobRecord, Vec<AttemptError>)>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let found: Vec<JobRow> = by_id(&ids, one()).load(conn).await?;
    let mut rows: HashMap<i64, JobRow> = found.into_iter().map(|row| (row.id, row)).collect();
    let failures: Vec<(i64, ErrorRow)> = job_error::table
        .filter(job_error::job_id.eq_any(ids.as_slice()))
        .order((job_error::at, job_error::id))
        .select((job_error::job_id, ErrorRow::as_select()))
        .load(conn)
        .await?;
    let mut errors: HashMap<i64, Vec<AttemptError>> = HashMap::new();
    for (id, failure) in failures {
        errors.entry(id).or_default().push(failure.into());
    }
    let shown = ids.iter().filter_map(|id| Some((rows.remove(id)?.into(), errors.remove(id).unwrap_or_default())));
    Ok(shown.collect())
}

/// Returns the state and the flags of those of these jobs that exist.
pub(crate) async fn standing(conn: &mut AsyncPgConnection, ids: &[i64]) -> QueryResult<Vec<(i64, JobState, i32)>> {
    let one = job::table.filter(job::id.eq(wanted())).select((job::id, job::state, job::flags));
    let rows: Vec<(i64, String, i32)> = by_id(ids, one).load(conn).await?;
    Ok(rows.into_iter().map(|(id, state, flags)| (id, parsed(&state), flags)).collect())
}

pub(crate) async fn stats(conn: &mut AsyncPgConnection) -> QueryResult<Vec<KindStats>> {
    let rows: Vec<StatsRow<f64>> = job::table
        .group_by((job::queue, job::kind))
        .select((
            job::queue,
            job::kind,
            sql::<BigInt>("count(*) filter (where state = 'available')"),
            sql::<BigInt>("count(*) filter (where state = 'scheduled')"),
            sql::<BigInt>("count(*) filter (where state = 'retrying')"),
            sql::<BigInt>("count(*) filter (where state = 'held')"),
            sql::<BigInt>("count(*) filter (where state = 'running')"),
            sql::<BigInt>("count(*) filter (where state = 'completed')"),
            sql::<BigInt>("count(*) filter (where state = 'cancelled')"),
            sql::<BigInt>("count(*) filter (where state = 'discarded')"),
            sql::<Nullable<Double>>(
                "extract(epoch from now() - min(run_at) filter (where state = 'available'))::float8",
            ),
        ))
        .order((job::queue, job::kind))
        .load(conn)
        .await?;
    Ok(kind_stats(rows, |seconds| seconds))
}

/// The size of the tables of waiting, held, running and ended jobs, in bytes.
pub(crate) async fn size(conn: &mut AsyncPgConnection) -> QueryResult<i64> {
    diesel::select(sql::<BigInt>(
        "pg_relation_size('jobs.ready') + pg_relation_size('jobs.held') + pg_relation_size('jobs.running') + pg_relation_size('jobs.finished')",
    ))
    .get_result(conn)
    .await
}

type AskedRow = (Option<String>, Option<DateTime<Utc>>, Option<String>, Option<DateTime<Utc>>);
type WorkerRow = (
    Uuid,
    String,
    i32,
    Vec<String>,
    DateTime<Utc>,
    DateTime<Utc>,
    bool,
    Option<String>,
    (Option<RawJson>, Option<i32>),
    AskedRow,
    (Option<Vec<String>>, Option<RawJson>),
);

pub(crate) async fn workers(conn: &mut AsyncPgConnection) -> QueryResult<Vec<WorkerRecord>> {
    let rows: Vec<WorkerRow> = worker::table
        .select((
            worker::id,
            worker::host,
            worker::pid,
            worker::queues,
            worker::started_at,
            worker::heartbeat_at,
            sql::<Bool>("heartbeat_at >= now() - lease"),
            worker::version,
            (worker::slots, worker::slots_total),
            (worker::asked, worker::asked_at, worker::asked_by, worker::draining_at),
            (worker::kinds, worker::schedules),
        ))
        .order(worker::started_at)
        .load(conn)
        .await?;
    Ok(rows
        .into_iter()
        .map(
            |(
                id,
                host,
                pid,
                queues,
                started_at,
                heartbeat_at,
                alive,
                version,
                (slots, slots_total),
                (asked, at, by, draining_at),
                (kinds, schedules),
            )| {
                WorkerRecord {
                    id: WorkerId(id),
                    host,
                    pid,
                    queues,
                    started_at,
                    heartbeat_at,
                    alive,
                    version,
                    slots: slots.and_then(|RawJson(text)| serde_json::from_slice(&text).ok()).unwrap_or_default(),
                    slots_total: slots_total.map(i32::unsigned_abs),
                    kinds,
                    schedules: schedules
                        .and_then(|RawJson(text)| serde_json::from_slice(&text).ok())
                        .unwrap_or_default(),
                    // The check of the table allows only words that can be parsed.
                    asked: asked.and_then(|word| word.parse().ok()),
                    asked_at: at,
                    asked_by: by,
                    draining_at,
                }
            },
        )
        .collect())
}
