//! `prune`: deletes finished jobs whose retention is over, with their failures. While the file is frozen it deletes
//! none, because operators may want to see them.

use diesel::SqliteConnection;
use diesel::prelude::*;

use crate::flags::FlagsKnown;
use crate::sqlite::queries::failures;
use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::Now;

/// The most ids per statement. SQLite allows 32,766 binds.
const AT_ONCE: usize = 1000;

/// Whether the retention of any job is over. Only reads.
pub(crate) fn is_needed(conn: &mut SqliteConnection) -> QueryResult<bool> {
    expired(conn, 1).map(|ids| !ids.is_empty())
}

/// Deletes at most `limit` jobs. Deletes those first whose retention ended first. Returns how many.
pub(crate) fn prune(conn: &mut SqliteConnection, limit: usize) -> QueryResult<usize> {
    let mut deleted = 0;
    for ids in expired(conn, limit)?.chunks(AT_ONCE) {
        failures::forget(conn, ids)?;
        deleted += diesel::delete(jobs_job::table.filter(jobs_job::id.eq_any(ids))).execute(conn)?;
    }
    Ok(deleted)
}

fn expired(conn: &mut SqliteConnection, limit: usize) -> QueryResult<Vec<i64>> {
    if is_frozen(conn)? {
        return Ok(Vec::new());
    }
    jobs_job::table
        .filter(jobs_job::expires_at.le(Now.nullable()))
        .filter(FlagsKnown("jobs_job"))
        .order(jobs_job::expires_at)
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .select(jobs_job::id)
        .load(conn)
}
