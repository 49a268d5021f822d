//! Creates waiting jobs inside the file.

use anyhow::Result;
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection as _;

use super::NOW;
use crate::raw::seed::ARGS;

/// Inserts waiting jobs of one kind into the default queue.
pub(crate) fn ready(conn: &mut SqliteConnection, kind: &str, jobs: u64) -> Result<()> {
    conn.batch_execute(&format!(
        "insert into jobs_job (kind, queue, run_at, args)
         with recursive number (i) as (select 1 union all select i + 1 from number where i < {jobs})
         select '{kind}', 'default', {NOW}, '{ARGS}' from number;
         analyze; pragma wal_checkpoint(truncate)"
    ))?;
    Ok(())
}
