//! What operators do to jobs, job by job in one transaction. The caller's transaction holds the write lock, so the
//! state cannot change between the read and the write.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::dsl::{insert_into, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_jobs_core::storage::{Action, DISCARDED, Once, Operated, RequestKey, UNNAMED_OPERATOR, cancel_fingerprint};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, Retention, flags};

use crate::operation::record::acted_once;
use crate::sqlite::literal::literal;
use crate::sqlite::queries::operate::{end_as_cancelled, reschedule, retry};
use crate::sqlite::queries::{audited, expiry, failures, limits, on_discarded, retention};
use crate::sqlite::schema::{job, jobs_job, jobs_job_error};
use crate::sqlite::time::Now;
use crate::sqlite::types::State;

/// Does something to these jobs, of which each is given once, and writes it to the audit.
pub(crate) fn act(
    conn: &mut SqliteConnection,
    action: &Action,
    ids: &[JobId],
    actor: &str,
) -> QueryResult<Vec<Operated>> {
    let (answers, changed) = each(conn, action, ids, actor)?;
    audited::record_action(conn, action, changed.into_iter().map(|(id, _)| id).collect(), actor)?;
    Ok(answers)
}

/// [`act`] for a request with a key, unless it was done before.
pub(crate) fn act_once(
    conn: &mut SqliteConnection,
    key: &RequestKey,
    action: &Action,
    ids: &[JobId],
    actor: &str,
) -> QueryResult<Once<Vec<Operated>>> {
    if let Some(before) = audited::before(conn, key)? {
        return Ok(Once::Before(before));
    }
    let (answers, changed) = each(conn, action, ids, actor)?;
    if let Some(entry) = acted_once(key, action, &changed, actor) {
        audited::record(conn, &entry)?;
    }
    Ok(Once::Now(answers))
}

/// The answer for each job, and the jobs that were changed with their answers.
type Answers = (Vec<Operated>, Vec<(i64, Operated)>);

fn each(conn: &mut SqliteConnection, action: &Action, ids: &[JobId], actor: &str) -> QueryResult<Answers> {
    let mut changed = Vec::new();
    let mut answers = Vec::with_capacity(ids.len());
    for &id in ids {
        let answer = one(conn, action, id, actor)?;
        changed.extend(answer.has_changed().then_some((id.0, answer)));
        answers.push(answer);
    }
    Ok((answers, changed))
}

/// Does something to one job.
pub(crate) fn one(conn: &mut SqliteConnection, action: &Action, id: JobId, actor: &str) -> QueryResult<Operated> {
    let row = jobs_job::table.find(id.0);
    // The view has a state for each sort of waiting jobs.
    let found = job::table.find(id.0).select((job::state, job::flags)).first(conn).optional()?;
    let Some((State(state), job_flags)) = found else { return Ok(Operated::NotFound) };
    if !flags::are_known(job_flags) {
        return Ok(Operated::Newer);
    }
    if !action.applies_to(state) {
        return Ok(Operated::Refused(state));
    }
    match action {
        Action::Retry => retry(conn, id.0)?,
        Action::RunNow if job_flags & flags::HELD != 0 => limits::hold_until_now(conn, id)?,
        Action::RunNow => drop(diesel::update(row).set(jobs_job::run_at.eq(Now)).execute(conn)?),
        Action::Reschedule(at) => reschedule(conn, id.0, *at)?,
        Action::Cancel => end_as_cancelled(conn, &[id.0], &format!("cancelled by {actor}"), named(actor))?,
        Action::Delete => delete(conn, id)?,
        Action::Discard => discard(conn, id, actor)?,
        Action::Reprioritise(priority) => drop(diesel::update(row).set(jobs_job::priority.eq(priority)).execute(conn)?),
        Action::Move(queue) => drop(diesel::update(row).set(jobs_job::queue.eq(queue)).execute(conn)?),
        Action::Rerun => return rerun(conn, id).map(Operated::Enqueued),
        // A later version of the core may have more actions.
        _ => return Ok(Operated::Newer),
    }
    Ok(Operated::Done)
}

/// The name, unless the caller gave none.
fn named(actor: &str) -> Option<&str> {
    Some(actor).filter(|name| *name != UNNAMED_OPERATOR)
}

fn delete(conn: &mut SqliteConnection, id: JobId) -> QueryResult<()> {
    diesel::delete(jobs_job::table.find(id.0)).execute(conn)?;
    diesel::delete(jobs_job_error::table.filter(jobs_job_error::job_id.eq(id.0))).execute(conn).map(drop)
}

fn discard(conn: &mut SqliteConnection, id: JobId, actor: &str) -> QueryResult<()> {
    let mut failure = Failure::new(FailureKind::Cancelled, &format!("discarded by {actor}"));
    failure.fingerprint = cancel_fingerprint(DISCARDED);
    end_as_discarded(conn, id, &failure, named(actor), Retention::default().discarded)
}

/// Ends a waiting job as discarded. What `on_discarded` says about its kind is enqueued. The job is kept for this time,
/// unless an operator has set another one.
pub(crate) fn end_as_discarded(
    conn: &mut SqliteConnection,
    id: JobId,
    failure: &Failure,
    actor: Option<&str>,
    keep: Duration,
) -> QueryResult<()> {
    on_discarded::apply(conn, id, failure)?;
    failures::record_by(conn, id, failure, actor)?;
    let row = jobs_job::table.find(id.0);
    let kind: String = row.select(jobs_job::kind).first(conn)?;
    let expiry = retention::expiry(conn, &kind, JobState::Discarded, keep)?;
    diesel::update(row)
        .set((
            jobs_job::state.eq(literal(JobState::Discarded)),
            jobs_job::finished_at.eq(Now.nullable()),
            expiry.map(|at| jobs_job::expires_at.eq(at.nullable())),
        ))
        .execute(conn)
        .map(drop)
}

/// Enqueues an ended job again, with all its attempts. It does not expire. Returns the new id.
fn rerun(conn: &mut SqliteConnection, id: JobId) -> QueryResult<JobId> {
    let columns = (
        jobs_job::kind,
        jobs_job::queue,
        jobs_job::priority,
        jobs_job::max_attempts,
        jobs_job::flags,
        jobs_job::tags,
        jobs_job::args,
        jobs_job::rules,
        jobs_job::lane,
    );
    let again = jobs_job::table.filter(jobs_job::id.eq(id.0)).select(columns);
    insert_into(jobs_job::table).values(again).into_columns(columns).execute(conn)?;
    let new = diesel::select(sql::<BigInt>("last_insert_rowid()")).get_result(conn).map(JobId)?;
    expiry::no_more(conn, new)?;
    limits::hold(conn, new)?;
    Ok(new)
}
