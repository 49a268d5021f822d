//! `list` and `show`: jobs as operators see them.

use std::collections::HashSet;

#[cfg(feature = "testing")]
use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
#[cfg(feature = "testing")]
use diesel_jobs_core::JobState;
use diesel_jobs_core::{AttemptError, JobId, JobRecord, Rules, Traceparent};

use crate::sqlite::queries::failures;
use crate::sqlite::schema::job;
#[cfg(feature = "testing")]
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, Names, State, Worker, count};
#[cfg(feature = "testing")]
use crate::testing::Among;

/// Returns those of these jobs that exist, in this order.
pub(crate) fn list(conn: &mut SqliteConnection, ids: &[i64]) -> QueryResult<Vec<JobRecord>> {
    let mut jobs = Vec::with_capacity(ids.len());
    for id in ids {
        let row: Option<Row> = job::table.find(id).select(Row::as_select()).first(conn).optional()?;
        jobs.extend(row.map(Row::into_record));
    }
    Ok(jobs)
}

/// Returns the waiting jobs in the order of a claim, and the time.
#[cfg(feature = "testing")]
pub(crate) fn waiting(conn: &mut SqliteConnection, among: Among) -> QueryResult<(Vec<JobRecord>, DateTime<Utc>)> {
    let (newer_than, other) = among.ids();
    let ended =
        [JobState::Completed, JobState::Cancelled, JobState::Discarded, JobState::Running].map(JobState::as_str);
    let waiting = job::table
        .select(Row::as_select())
        .filter(job::state.ne_all(ended))
        .filter(job::id.gt(newer_than).or(job::id.eq(other)));
    let rows = waiting.order((job::priority.desc(), job::run_at, job::id)).load(conn)?;
    let now: Instant = diesel::select(Now).get_result(conn)?;
    Ok((rows.into_iter().map(Row::into_record).collect(), now.0))
}

/// Returns those of these jobs that exist, with their failures. Each job comes once, in the order of `ids`.
pub(crate) fn show(conn: &mut SqliteConnection, ids: &[JobId]) -> QueryResult<Vec<(JobRecord, Vec<AttemptError>)>> {
    let (mut seen, mut shown) = (HashSet::new(), Vec::new());
    for &id in ids.iter().filter(|id| seen.insert(**id)) {
        if let Some(row) = job::table.find(id.0).select(Row::as_select()).first(conn).optional()? {
            shown.push((row.into_record(), failures::of(conn, id)?));
        }
    }
    Ok(shown)
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = job, check_for_backend(diesel::sqlite::Sqlite))]
struct Row {
    id: i64,
    kind: String,
    queue: String,
    state: State,
    priority: i16,
    attempt: i32,
    max_attempts: i32,
    crashes: i32,
    run_at: Instant,
    enqueued_at: Instant,
    claimed_at: Option<Instant>,
    finished_at: Option<Instant>,
    worker: Option<Worker>,
    tags: Names,
    args: String,
    last_error: Option<String>,
    flags: i32,
    traceparent: Option<String>,
    rules: Option<String>,
}

impl Row {
    fn into_record(self) -> JobRecord {
        JobRecord {
            id: JobId(self.id),
            kind: self.kind,
            queue: self.queue,
            state: self.state.0,
            priority: self.priority,
            attempt: count(self.attempt),
            max_attempts: count(self.max_attempts),
            crashes: count(self.crashes),
            run_at: self.run_at.0,
            enqueued_at: self.enqueued_at.0,
            claimed_at: self.claimed_at.map(|at| at.0),
            finished_at: self.finished_at.map(|at| at.0),
            worker: self.worker.map(|worker| worker.0),
            tags: self.tags.0,
            args: self.args,
            last_error: self.last_error,
            flags: self.flags,
            traceparent: self.traceparent.as_deref().and_then(Traceparent::parse),
            rules: self.rules.and_then(|rules| Rules::read(rules.as_bytes()).ok()).unwrap_or_default(),
        }
    }
}
