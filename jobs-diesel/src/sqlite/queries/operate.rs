//! `retry` and `cancel`: the commands of operators, job by job in one transaction. The caller's transaction holds the
//! write lock, so the state cannot change between the read and the write.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::{min, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_jobs_core::storage::{CANCELLED, CANCELLED_WITH_ALL, Operated};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, Retention, flags};

use crate::flags::FlagsKnown;
use crate::sqlite::literal::{AVAILABLE, RUNNING, literal};
use crate::sqlite::queries::failures;
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{NOW, Now, after};
use crate::sqlite::types::{Instant, State, Worker};

/// Calls `operate` once for each job. Returns one answer per id, also if an id occurs twice.
pub(crate) fn each(
    ids: &[JobId],
    mut operate: impl FnMut(JobId) -> QueryResult<Operated>,
) -> QueryResult<Vec<Operated>> {
    let mut answers = HashMap::with_capacity(ids.len());
    for &id in ids {
        if let Entry::Vacant(answer) = answers.entry(id) {
            answer.insert(operate(id)?);
        }
    }
    Ok(ids.iter().filter_map(|id| answers.get(id).copied()).collect())
}

/// Makes a job available now, with at least one attempt left. Its crashes become 0, because an operator has looked at
/// the job. Its lease number becomes at least 1, because the job may have failures: see `complete`.
pub(crate) fn retry(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Operated> {
    let job = jobs_job::table.find(id.0);
    let found = job
        .select((jobs_job::state, jobs_job::flags, jobs_job::attempt, jobs_job::max_attempts, jobs_job::lease))
        .first::<(State, i32, i32, i32, i32)>(conn)
        .optional()?;
    let Some((State(state), flags, attempt, max_attempts, lease)) = found else { return Ok(Operated::NotFound) };
    if !flags::are_known(flags) {
        return Ok(Operated::Newer);
    }
    if matches!(state, JobState::Running | JobState::Completed) {
        return Ok(Operated::Refused(state));
    }
    diesel::update(job)
        .set((
            jobs_job::state.eq(AVAILABLE),
            jobs_job::run_at.eq(Now),
            jobs_job::lease.eq(lease.max(1)),
            jobs_job::max_attempts.eq(max_attempts.max(attempt + 1)),
            jobs_job::crashes.eq(0),
            jobs_job::worker.eq(None::<Worker>),
            jobs_job::claimed_at.eq(None::<i64>),
            jobs_job::finished_at.eq(None::<i64>),
            jobs_job::expires_at.eq(None::<i64>),
        ))
        .execute(conn)?;
    Ok(Operated::Done)
}

/// Cancels a waiting or running job. The lease of a running job is then lost, and the worker needs no other message.
pub(crate) fn cancel(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Operated> {
    let job = jobs_job::table.find(id.0);
    let found = job.select((jobs_job::state, jobs_job::flags)).first(conn).optional()?;
    let Some((State(state), flags)) = found else { return Ok(Operated::NotFound) };
    if !flags::are_known(flags) {
        return Ok(Operated::Newer);
    }
    if state.is_finished() {
        return Ok(Operated::Refused(state));
    }
    end_as_cancelled(conn, id, CANCELLED)?;
    Ok(Operated::Done)
}

/// Moves the waiting jobs of these queues and kinds to an earlier time by the same span, so that the first of them is due now.
/// Returns the span. For tests that skip time.
pub(crate) fn bring_forward(conn: &mut SqliteConnection, queues: &[String], kinds: &[String]) -> QueryResult<Duration> {
    let waiting = jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE))
        .filter(jobs_job::queue.eq_any(queues))
        .filter(jobs_job::kind.eq_any(kinds))
        .filter(FlagsKnown("jobs_job"));
    let (first, now): (Option<i64>, i64) =
        waiting.clone().select((min(jobs_job::run_at), sql::<BigInt>(NOW))).get_result(conn)?;
    let span = first.map_or(0, |first| first - now);
    if span <= 0 {
        return Ok(Duration::ZERO);
    }
    diesel::update(waiting).set(jobs_job::run_at.eq(jobs_job::run_at - span)).execute(conn)?;
    Ok(Duration::from_micros(span.unsigned_abs()))
}

/// Cancels waiting and running jobs that were enqueued before `time`, at most `limit`. Returns how many.
pub(crate) fn cancel_enqueued_before(
    conn: &mut SqliteConnection,
    time: DateTime<Utc>,
    limit: usize,
) -> QueryResult<usize> {
    let ids: Vec<i64> = jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE).or(jobs_job::state.eq(RUNNING)))
        .filter(jobs_job::enqueued_at.lt(Instant(time)))
        .filter(FlagsKnown("jobs_job"))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .select(jobs_job::id)
        .load(conn)?;
    for id in &ids {
        end_as_cancelled(conn, JobId(*id), CANCELLED_WITH_ALL)?;
    }
    Ok(ids.len())
}

fn end_as_cancelled(conn: &mut SqliteConnection, id: JobId, why: &str) -> QueryResult<()> {
    failures::record(conn, id, &Failure::new(FailureKind::Cancelled, why))?;
    diesel::update(jobs_job::table.find(id.0))
        .set((
            jobs_job::state.eq(literal(JobState::Cancelled)),
            jobs_job::finished_at.eq(Now.nullable()),
            jobs_job::expires_at.eq(after(Retention::default().failed).nullable()),
        ))
        .execute(conn)
        .map(drop)
}
