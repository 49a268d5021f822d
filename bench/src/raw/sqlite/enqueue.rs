//! Enqueues one job in a transaction of its own, or many in one.

use anyhow::Result;
use diesel::prelude::*;

use super::native::Native;
use crate::raw::seed::ARGS;

/// A bind between each two.
const INSERT: [&str; 4] = [
    "insert into jobs_job (kind, queue, priority, max_attempts, tags, args, run_at) values (",
    ", ",
    ", 0, 25, '[]', ",
    ", (cast(round(unixepoch('subsec') * 1000) as integer) * 1000)) returning id",
];

/// A job that does nothing; answers its id.
pub(crate) fn enqueue(conn: &mut SqliteConnection) -> Result<i64> {
    Ok(Native { pieces: &INSERT, binds: &["noop", "default", ARGS] }.get_result(conn)?)
}

/// Many jobs in one transaction, row by row, which is what SQLite does best.
pub(crate) fn enqueue_many(conn: &mut SqliteConnection, jobs: usize) -> Result<()> {
    conn.immediate_transaction(|conn| {
        for _ in 0..jobs {
            enqueue(conn)?;
        }
        Ok(())
    })
}
