//! Claims and finishes in batches of the same size as on PostgreSQL, each in a transaction of its own. As in the store,
//! a claim does not wait for the disk, and a finish does.

use anyhow::{Result, ensure};
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;

use super::NOW;
use super::native::Native;
use crate::raw::{BATCH, WORKER};

/// Claims and finishes this many jobs.
pub(crate) fn drain(conn: &mut SqliteConnection, jobs: u64) -> Result<()> {
    let claim = [
        format!(
            "update jobs_job set state = 'running', attempt = attempt + 1, lease = lease + 1, claimed_at = {NOW}, worker = "
        ),
        format!(
            " where id in (select id from jobs_job where state = 'available' and queue = 'default' and priority = 0
              and run_at <= {NOW} order by run_at, id limit {BATCH}) returning id"
        ),
    ];
    let finish = [
        format!(
            "update jobs_job set state = 'completed', finished_at = {NOW}, expires_at = {NOW} + 86400000000
             where state = 'running' and id in (select value from json_each("
        ),
        ")) and worker = ".to_owned(),
        String::new(),
    ];
    let (claim, finish) = (claim.each_ref().map(String::as_str), finish.each_ref().map(String::as_str));
    let mut finished = 0;
    while finished < jobs {
        conn.batch_execute("pragma synchronous = normal")?;
        let ids: Vec<i64> =
            conn.immediate_transaction(|conn| Native { pieces: &claim, binds: &[WORKER] }.load(conn))?;
        conn.batch_execute("pragma synchronous = full")?;
        ensure!(!ids.is_empty(), "{finished} of {jobs} jobs are finished, and no other waits");
        let ids = serde_json::to_string(&ids)?;
        let moved = conn
            .immediate_transaction(|conn| Native { pieces: &finish, binds: &[ids.as_str(), WORKER] }.execute(conn))?;
        finished += moved as u64;
    }
    Ok(())
}
