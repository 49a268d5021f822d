//! `events`: what happened to jobs a moment ago. It only reads.
//!
//! Ended jobs have no index by the time of their end. They have one by the time until which they are kept. Jobs with
//! the same retention end in the order of that index. So a part of the index is read for each retention. For jobs that
//! are kept for ever, the newest jobs are read by their ids. Failures are read in the order of their numbers.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::{Events, EventsSince, Happened, JobEvent, JobId, JobState};

use crate::sqlite::literal::RUNNING;
use crate::sqlite::schema::{jobs_job, jobs_job_error};
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, State, Worker, count};

type Columns = (i64, String, String, i32, Option<Worker>);
type FailureRow = (i64, Instant, i64, i32, Option<Worker>, String, String);
type JobRow = (Option<Instant>, State, Columns);

fn event(at: DateTime<Utc>, event: Happened, columns: Columns, message: Option<String>) -> JobEvent {
    let (id, kind, queue, attempt, worker) = columns;
    let worker = worker.map(|worker| worker.0);
    JobEvent { at, event, id: JobId(id), kind, queue, attempt: count(attempt), worker, message }
}

#[diesel::dsl::auto_type(no_type_alias)]
fn columns() -> _ {
    (jobs_job::id, jobs_job::kind, jobs_job::queue, jobs_job::attempt, jobs_job::worker)
}

/// The newest failure of a job, in words.
fn message(conn: &mut SqliteConnection, job: i64) -> QueryResult<Option<String>> {
    jobs_job_error::table
        .filter(jobs_job_error::job_id.eq(job))
        .order(jobs_job_error::id.desc())
        .select(jobs_job_error::message)
        .first(conn)
        .optional()
}

/// For how long the newest jobs are kept.
fn keeps(conn: &mut SqliteConnection) -> QueryResult<Vec<i64>> {
    let newest: Vec<(Option<i64>, Option<i64>)> = jobs_job::table
        .order(jobs_job::id.desc())
        .limit(EventsSince::NEWEST)
        .select((jobs_job::expires_at, jobs_job::finished_at))
        .load(conn)?;
    Ok(newest.into_iter().filter_map(|(expires, finished)| expires?.checked_sub(finished?)).collect())
}

fn ended(conn: &mut SqliteConnection, since: i64, now: i64, keeps: &EventsSince) -> QueryResult<Vec<JobRow>> {
    let mut rows: Vec<JobRow> = jobs_job::table
        .order(jobs_job::id.desc())
        .limit(EventsSince::NEWEST)
        .select((jobs_job::finished_at, jobs_job::state, columns()))
        .load(conn)?;
    for keep in &keeps.keeps {
        let of_keep: Vec<JobRow> = jobs_job::table
            .filter(jobs_job::expires_at.gt(since.saturating_add(*keep)))
            .filter(jobs_job::expires_at.le(now.saturating_add(*keep)))
            .order(jobs_job::expires_at.desc())
            .limit(EventsSince::MOST)
            .select((jobs_job::finished_at, jobs_job::state, columns()))
            .load(conn)?;
        rows.extend(of_keep);
    }
    rows.retain(|row| row.0.is_some_and(|at| at.0.timestamp_micros() > since));
    rows.sort_by_key(|row| row.2.0);
    rows.dedup_by_key(|row| row.2.0);
    Ok(rows)
}

pub(crate) fn events(conn: &mut SqliteConnection, since: &EventsSince) -> QueryResult<Events> {
    let now: Instant = diesel::select(Now).get_result(conn)?;
    let keeps = keeps(conn)?;
    let last =
        jobs_job_error::table.order(jobs_job_error::id.desc()).select(jobs_job_error::id).first(conn).optional()?;
    let Some(at) = since.at else {
        let next = since.next(now.0, last.unwrap_or(0), keeps);
        return Ok(Events::new(Vec::new(), next));
    };
    let wanted = since.next(now.0, 0, keeps.iter().copied());
    let mut events = Vec::new();
    for (finished_at, State(state), columns) in ended(conn, at.timestamp_micros(), now.0.timestamp_micros(), &wanted)? {
        let happened = match state {
            JobState::Completed => Happened::Completed,
            JobState::Cancelled => Happened::Cancelled,
            JobState::Discarded => Happened::Discarded,
            _ => continue,
        };
        let message = if happened == Happened::Completed { None } else { message(conn, columns.0)? };
        events.extend(finished_at.map(|at| event(at.0, happened, columns, message)));
    }
    let failures: Vec<FailureRow> = jobs_job_error::table
        .filter(jobs_job_error::id.gt(since.failure))
        .order(jobs_job_error::id)
        .limit(EventsSince::MOST)
        .select((
            jobs_job_error::id,
            jobs_job_error::at,
            jobs_job_error::job_id,
            jobs_job_error::attempt,
            jobs_job_error::worker,
            jobs_job_error::kind,
            jobs_job_error::message,
        ))
        .load(conn)?;
    let failure = failures.iter().map(|row| row.0).max().unwrap_or(0);
    for (_, at, job, attempt, worker, kind, message) in failures {
        let found: Option<(String, String, State)> = jobs_job::table
            .find(job)
            .select((jobs_job::kind, jobs_job::queue, jobs_job::state))
            .first(conn)
            .optional()?;
        let Some((name, queue, State(state))) = found else { continue };
        // The end of the job is an event of its own.
        if !matches!(state, JobState::Discarded | JobState::Cancelled) {
            let happened =
                if matches!(kind.as_str(), "crash" | "killed") { Happened::Rescued } else { Happened::Retried };
            events.push(event(at.0, happened, (job, name, queue, attempt, worker), Some(message)));
        }
    }
    let started: Vec<(Option<Instant>, Columns)> = jobs_job::table
        .filter(jobs_job::state.eq(RUNNING).and(jobs_job::claimed_at.gt(at.timestamp_micros())))
        .limit(EventsSince::MOST)
        .select((jobs_job::claimed_at, columns()))
        .load(conn)?;
    let started = started.into_iter().filter_map(|(at, columns)| Some((at?.0, columns)));
    events.extend(started.map(|(at, columns)| event(at, Happened::Started, columns, None)));
    Ok(Events::new(events, since.next(now.0, failure, keeps)))
}
