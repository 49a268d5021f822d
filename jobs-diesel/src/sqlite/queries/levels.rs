//! Levels. A level is one priority of one queue. Claims read level by level. So jobs that are scheduled for later at a
//! high priority cost two index entries, and not one entry for each job.

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::prelude::*;

use crate::sqlite::literal::AVAILABLE;
use crate::sqlite::queries::installation::frozen;
use crate::sqlite::schema::{jobs_job, jobs_queue};

/// Returns the highest priority, not above `ceiling`, at which a job of the queue waits. `None` if there is none.
pub(crate) fn highest(conn: &mut SqliteConnection, queue: &str, ceiling: i16) -> QueryResult<Option<i16>> {
    jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE))
        .filter(jobs_job::queue.eq(queue))
        .filter(jobs_job::priority.le(ceiling))
        .order(jobs_job::priority.desc())
        .select(jobs_job::priority)
        .first(conn)
        .optional()
}

/// Calls `visit` for each level of the queue, highest first, until it returns `false`.
pub(crate) fn walk(
    conn: &mut SqliteConnection,
    queue: &str,
    mut visit: impl FnMut(&mut SqliteConnection, i16) -> QueryResult<bool>,
) -> QueryResult<()> {
    let mut ceiling = Some(i16::MAX);
    while let Some(at_most) = ceiling {
        let Some(priority) = highest(conn, queue, at_most)? else { break };
        ceiling = if visit(conn, priority)? { priority.checked_sub(1) } else { None };
    }
    Ok(())
}

/// Whether the queue is paused or the file is frozen.
pub(crate) fn is_paused(conn: &mut SqliteConnection, queue: &str) -> QueryResult<bool> {
    let paused = jobs_queue::table.filter(jobs_queue::name.eq(queue)).filter(jobs_queue::paused.eq(true));
    diesel::select(exists(paused).or(frozen())).get_result(conn)
}
