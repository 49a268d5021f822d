//! `ask_worker`, `running`, `running_in`: what operators ask of workers, and what workers run now.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::{Asked, RunningJob};
use diesel_jobs_core::{JobId, WorkerId};

use crate::sqlite::literal::RUNNING;
use crate::sqlite::queries::audit::record;
use crate::sqlite::schema::{jobs_job, jobs_worker};
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, Worker, count};

/// Returns `false` if there is no such worker.
pub(crate) fn ask(conn: &mut SqliteConnection, id: WorkerId, asked: Asked, actor: &str) -> QueryResult<bool> {
    let row = jobs_worker::table.filter(jobs_worker::id.eq(Worker(id)));
    let stored: Option<Option<String>> = row.select(jobs_worker::asked).first(conn).optional()?;
    let Some(stored) = stored else { return Ok(false) };
    if stored.as_deref() == Some(asked.as_str()) || stored.as_deref() == Some(Asked::Stop.as_str()) {
        return Ok(true);
    }
    diesel::update(row)
        .set((
            jobs_worker::asked.eq(asked.as_str()),
            jobs_worker::asked_at.eq(Now.nullable()),
            jobs_worker::asked_by.eq(actor),
        ))
        .execute(conn)?;
    record(conn, actor, asked.as_str(), &format!("worker {id}"), None)?;
    Ok(true)
}

pub(crate) fn running(conn: &mut SqliteConnection, id: WorkerId) -> QueryResult<Vec<RunningJob>> {
    let rows: Vec<(i64, String, String, i32, Option<Instant>, Instant)> = jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .filter(jobs_job::worker.eq(Worker(id)))
        .order((jobs_job::claimed_at, jobs_job::id))
        .select((
            jobs_job::id,
            jobs_job::kind,
            jobs_job::queue,
            jobs_job::attempt,
            jobs_job::claimed_at,
            jobs_job::run_at,
        ))
        .load(conn)?;
    let job = |(id, kind, queue, attempt, claimed_at, run_at): (i64, _, _, i32, Option<Instant>, Instant)| RunningJob {
        id: JobId(id),
        kind,
        queue,
        attempt: count(attempt),
        // A running job always has this time. Jobs of other states may have none.
        claimed_at: claimed_at.unwrap_or(run_at).0,
    };
    Ok(rows.into_iter().map(job).collect())
}

pub(crate) fn running_in(conn: &mut SqliteConnection, queue: &str) -> QueryResult<u64> {
    let running: i64 = jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .filter(jobs_job::queue.eq(queue))
        .count()
        .get_result(conn)?;
    Ok(u64::try_from(running).unwrap_or_default())
}
