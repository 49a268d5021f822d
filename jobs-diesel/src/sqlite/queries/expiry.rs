//! When jobs expire: what moves or ends their time.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::BigInt;
use diesel_jobs_core::JobId;
use diesel_jobs_core::flags::EXPIRES;

/// The job has started, or an operator runs it again: it does not expire.
pub(crate) fn no_more(conn: &mut SqliteConnection, job: JobId) -> QueryResult<()> {
    let started =
        format!("update jobs_job set flags = flags & ~{EXPIRES}, start_by = null where id = ?1 and flags & {EXPIRES}");
    sql_query(started).bind::<BigInt, _>(job.0).execute(conn).map(drop)
}

/// Jobs expire by this span earlier.
pub(super) fn bring_forward(conn: &mut SqliteConnection, span: i64) -> QueryResult<()> {
    sql_query("update jobs_job set start_by = start_by - ?1 where start_by is not null")
        .bind::<BigInt, _>(span)
        .execute(conn)
        .map(drop)
}
