//! The parts of the commands of operators, job by job in one transaction. The caller's transaction holds the
//! write lock, so the state cannot change between the read and the write.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::{min, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_jobs_core::storage::{Action, CANCELLED, CANCELLED_WITH_ALL, UNNAMED_OPERATOR, cancel_fingerprint};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, Retention};

use crate::flags::FlagsKnown;
use crate::sqlite::literal::{AVAILABLE, RUNNING, literal};
use crate::sqlite::queries::audited::record_action;
use crate::sqlite::queries::{expiry, failures, limits, rate, retention};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{NOW, Now};
use crate::sqlite::types::{Instant, State, Worker};

/// Makes a job available now, with at least one attempt left. Its crashes become 0, because an operator has examined
/// the job. If it has ended, it does not expire any more. Its lease number becomes at least 1, because the job may have
/// failures: see `complete`.
pub(crate) fn retry(conn: &mut SqliteConnection, id: JobId) -> QueryResult<()> {
    let job = jobs_job::table.find(id.0);
    let (attempt, max_attempts, lease, State(state)): (i32, i32, i32, State) =
        job.select((jobs_job::attempt, jobs_job::max_attempts, jobs_job::lease, jobs_job::state)).first(conn)?;
    let needs_permit = limits::needs_permit(conn, id)?;
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
    if state != JobState::Available {
        expiry::no_more(conn, id)?;
    }
    if needs_permit { limits::hold(conn, id) } else { Ok(()) }
}

/// Moves the waiting jobs of these queues and kinds to an earlier time, all by the same span. The first of them is then
/// due now. Returns the span. For tests that skip time.
pub(crate) fn bring_forward(conn: &mut SqliteConnection, queues: &[String], kinds: &[String]) -> QueryResult<Duration> {
    // The time of its token, if it waits for one.
    let time = || {
        sql::<BigInt>(
            "max(coalesce(due_at, run_at), coalesce((select next_at from jobs_rate r
             where jobs_job.flags & 8 and r.limit_name = jobs_job.limit_name and r.limit_key = jobs_job.limit_key),
             case when jobs_job.flags & 130 = 130 and jobs_job.limit_name = '' then (
                 select r.next_at from jobs_job o indexed by jobs_job_held_from_lane join jobs_rate r on r.limit_name = o.limit_name and r.limit_key = o.limit_key
                 where o.flags & 2 and o.flags & 132 = 128 and o.limit_name <> '' and o.lane = jobs_job.limit_key and o.flags & 8
             ) end, 0))",
        )
    };
    let waiting = jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE))
        .filter(jobs_job::queue.eq_any(queues))
        .filter(jobs_job::kind.eq_any(kinds))
        .filter(FlagsKnown("jobs_job"));
    let (first, now): (Option<i64>, i64) =
        waiting.clone().select((min(time()), sql::<BigInt>(NOW))).get_result(conn)?;
    let span = first.map_or(0, |first| first - now);
    if span <= 0 {
        return Ok(Duration::ZERO);
    }
    let free = waiting.clone().filter(jobs_job::due_at.is_null());
    diesel::update(free).set(jobs_job::run_at.eq(jobs_job::run_at - span)).execute(conn)?;
    let held = waiting.filter(jobs_job::due_at.is_not_null());
    diesel::update(held).set(jobs_job::due_at.eq(jobs_job::due_at - span)).execute(conn)?;
    rate::bring_forward(conn, span)?;
    expiry::bring_forward(conn, span)?;
    Ok(Duration::from_micros(span.unsigned_abs()))
}

/// Cancels waiting and running jobs that were enqueued before `time`, at most `limit`. Returns how many. Writes them to
/// the audit.
pub(crate) fn cancel_enqueued_before(
    conn: &mut SqliteConnection,
    time: DateTime<Utc>,
    limit: usize,
    actor: &str,
) -> QueryResult<usize> {
    let ids: Vec<i64> = jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE).or(jobs_job::state.eq(RUNNING)))
        .filter(jobs_job::enqueued_at.lt(Instant(time)))
        .filter(FlagsKnown("jobs_job"))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .select(jobs_job::id)
        .load(conn)?;
    let named = (actor != UNNAMED_OPERATOR).then_some(actor);
    for id in &ids {
        end_as_cancelled(conn, JobId(*id), CANCELLED_WITH_ALL, named)?;
    }
    let cancelled = ids.len();
    record_action(conn, &Action::Cancel, ids, actor)?;
    Ok(cancelled)
}

/// Ends a waiting or running job as cancelled. The lease of a running job is then lost, and the worker needs no other
/// message.
pub(crate) fn end_as_cancelled(
    conn: &mut SqliteConnection,
    id: JobId,
    why: &str,
    actor: Option<&str>,
) -> QueryResult<()> {
    let mut failure = Failure::new(FailureKind::Cancelled, why);
    failure.fingerprint = cancel_fingerprint(CANCELLED);
    end_because(conn, id, &failure, actor, Retention::default().cancelled)
}

/// The same with this reason. The job is kept for this time, unless an operator has set another one.
pub(super) fn end_because(
    conn: &mut SqliteConnection,
    id: JobId,
    failure: &Failure,
    actor: Option<&str>,
    keep: Duration,
) -> QueryResult<()> {
    failures::record_by(conn, id, failure, actor)?;
    let row = jobs_job::table.find(id.0);
    let kind: String = row.select(jobs_job::kind).first(conn)?;
    let expiry = retention::expiry(conn, &kind, JobState::Cancelled, keep)?;
    diesel::update(row)
        .set((
            jobs_job::state.eq(literal(JobState::Cancelled)),
            jobs_job::finished_at.eq(Now.nullable()),
            expiry.map(|at| jobs_job::expires_at.eq(at.nullable())),
        ))
        .execute(conn)
        .map(drop)
}
