//! The parts of the commands of operators. The caller's transaction holds the write lock, so the state cannot change
//! between the read and the write.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::{min, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_jobs_core::storage::{Action, CANCELLED, CANCELLED_WITH_ALL, UNNAMED_OPERATOR, cancel_fingerprint};
use diesel_jobs_core::{Failure, FailureKind, Retention};

use crate::flags::FlagsKnown;
use crate::sqlite::literal::{AVAILABLE, RUNNING};
use crate::sqlite::queries::audited::record_action;
use crate::sqlite::queries::{change, expiry, rate};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{NOW, micros};
use crate::sqlite::types::Instant;

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
    end_as_cancelled(conn, &ids, CANCELLED_WITH_ALL, named)?;
    let cancelled = ids.len();
    record_action(conn, &Action::Cancel, ids, actor)?;
    Ok(cancelled)
}

/// Ends waiting and running jobs as cancelled by an operator.
pub(crate) fn end_as_cancelled(
    conn: &mut SqliteConnection,
    ids: &[i64],
    why: &str,
    actor: Option<&str>,
) -> QueryResult<()> {
    let mut failure = Failure::new(FailureKind::Cancelled, why);
    failure.fingerprint = cancel_fingerprint(CANCELLED);
    end_because(conn, ids, &failure, actor, Retention::default().cancelled)
}

/// The same with this reason. The jobs are kept for this time, unless an operator has set another one.
pub(super) fn end_because(
    conn: &mut SqliteConnection,
    ids: &[i64],
    failure: &Failure,
    actor: Option<&str>,
    keep: Duration,
) -> QueryResult<()> {
    for statement in change::cancel(&json(ids), failure, actor, micros(keep)) {
        statement.execute(conn)?;
    }
    Ok(())
}

/// Makes a job available now.
pub(crate) fn retry(conn: &mut SqliteConnection, id: i64) -> QueryResult<()> {
    change::retry(&json(&[id])).execute(conn).map(drop)
}

/// Sets the time of a waiting job.
pub(crate) fn reschedule(conn: &mut SqliteConnection, id: i64, at: DateTime<Utc>) -> QueryResult<()> {
    change::reschedule(&json(&[id]), at.timestamp_micros()).execute(conn).map(drop)
}

fn json(ids: &[i64]) -> String {
    serde_json::json!(ids).to_string()
}
