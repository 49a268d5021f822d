//! Failed attempts. A failure is recorded in the transaction that ends the attempt. Operators read it. The number of
//! failures per job is limited.

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::storage::{Cancelled, MAX_ERRORS_PER_JOB};
use diesel_jobs_core::{AttemptError, Failure, FailureKind, JobId, JobState};

use crate::sqlite::literal::literal;
use crate::sqlite::schema::{jobs_job, jobs_job_error};
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, Worker, count};

/// Records a failure of the job's current attempt. Call it before the job is moved, because a move may clear the worker
/// and the time of the claim.
pub(crate) fn record(conn: &mut SqliteConnection, job: JobId, failure: &Failure) -> QueryResult<()> {
    record_by(conn, job, failure, None)
}

/// [`record`], and the operator who has ended the job.
pub(crate) fn record_by(
    conn: &mut SqliteConnection,
    job: JobId,
    failure: &Failure,
    actor: Option<&str>,
) -> QueryResult<()> {
    let attempt = jobs_job::table.filter(jobs_job::id.eq(job.0)).select((
        jobs_job::id,
        jobs_job::attempt,
        failure.kind.as_str().into_sql::<Text>(),
        failure.message.as_str().into_sql::<Text>(),
        jobs_job::claimed_at,
        jobs_job::worker,
        Now,
        Some(failure.fingerprint).into_sql::<Nullable<BigInt>>(),
        failure.place.as_deref().into_sql::<Nullable<Text>>(),
        failure.backtrace.as_deref().into_sql::<Nullable<Text>>(),
        actor.into_sql::<Nullable<Text>>(),
    ));
    diesel::insert_into(jobs_job_error::table)
        .values(attempt)
        .into_columns((
            jobs_job_error::job_id,
            jobs_job_error::attempt,
            jobs_job_error::kind,
            jobs_job_error::message,
            jobs_job_error::started_at,
            jobs_job_error::worker,
            jobs_job_error::at,
            jobs_job_error::fingerprint,
            jobs_job_error::place,
            jobs_job_error::backtrace,
            jobs_job_error::actor,
        ))
        .execute(conn)?;
    make_room(conn, job)
}

fn make_room(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let of_job = jobs_job_error::table.filter(jobs_job_error::job_id.eq(job.0));
    let newest_too_many = of_job
        .order(jobs_job_error::id.desc())
        .offset(i64::from(MAX_ERRORS_PER_JOB))
        .limit(1)
        .select(jobs_job_error::id)
        .first::<i64>(conn)
        .optional()?;
    if let Some(newest_too_many) = newest_too_many {
        diesel::delete(of_job.filter(jobs_job_error::id.le(newest_too_many))).execute(conn)?;
    }
    Ok(())
}

/// Returns the failures of a job, oldest first.
pub(crate) fn of(conn: &mut SqliteConnection, job: JobId) -> QueryResult<Vec<AttemptError>> {
    let rows = jobs_job_error::table
        .filter(jobs_job_error::job_id.eq(job.0))
        .order(jobs_job_error::id)
        .select(Row::as_select())
        .load(conn)?;
    Ok(rows.into_iter().map(Row::into_error).collect())
}

/// How often this job was released because its worker was killed.
pub(crate) fn kills(conn: &mut SqliteConnection, job: JobId) -> QueryResult<u16> {
    let kills = jobs_job_error::table
        .filter(jobs_job_error::job_id.eq(job.0))
        .filter(jobs_job_error::kind.eq(FailureKind::Killed.as_str()));
    let number: i64 = kills.count().get_result(conn)?;
    Ok(u16::try_from(number).unwrap_or(u16::MAX))
}

/// Returns those of these jobs that are cancelled, and who has cancelled each.
pub(crate) fn cancelled(conn: &mut SqliteConnection, jobs: &[JobId]) -> QueryResult<Vec<Cancelled>> {
    let mut found = Vec::new();
    for &job in jobs {
        let is_cancelled = jobs_job::table.find(job.0).filter(jobs_job::state.eq(literal(JobState::Cancelled)));
        if !diesel::select(exists(is_cancelled)).get_result::<bool>(conn)? {
            continue;
        }
        let by = jobs_job_error::table
            .filter(jobs_job_error::job_id.eq(job.0))
            .filter(jobs_job_error::kind.eq(FailureKind::Cancelled.as_str()))
            .order(jobs_job_error::id.desc())
            .select(jobs_job_error::actor)
            .first::<Option<String>>(conn)
            .optional()?;
        found.push(Cancelled { job, by: by.flatten() });
    }
    Ok(found)
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_job_error, check_for_backend(diesel::sqlite::Sqlite))]
struct Row {
    attempt: i32,
    kind: String,
    message: String,
    worker: Option<Worker>,
    started_at: Option<Instant>,
    at: Instant,
    fingerprint: Option<i64>,
    place: Option<String>,
    backtrace: Option<String>,
    actor: Option<String>,
}

impl Row {
    fn into_error(self) -> AttemptError {
        AttemptError {
            attempt: count(self.attempt),
            kind: FailureKind::parse(&self.kind),
            message: self.message,
            worker: self.worker.map(|worker| worker.0),
            started_at: self.started_at.map(|at| at.0),
            at: self.at.0,
            fingerprint: self.fingerprint,
            place: self.place,
            backtrace: self.backtrace,
            actor: self.actor,
        }
    }
}

/// Deletes the failures of jobs that are deleted. Returns how many.
pub(crate) fn forget(conn: &mut SqliteConnection, jobs: &[i64]) -> QueryResult<usize> {
    diesel::delete(jobs_job_error::table.filter(jobs_job_error::job_id.eq_any(jobs))).execute(conn)
}
