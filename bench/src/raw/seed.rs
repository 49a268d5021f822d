//! Creates jobs and history inside the database.

use anyhow::Result;
use tokio_postgres::Client;

use crate::server::Database;

/// The arguments of every job, exactly as the typed jobs store them.
pub(crate) const ARGS: &str = r#"{"id":1,"name":"hello"}"#;

/// Inserts waiting jobs of one kind into the default queue, due after `delay` (an interval).
pub(crate) async fn ready(client: &Client, kind: &str, jobs: u64, priority: i16, delay: &str) -> Result<()> {
    client
        .batch_execute(&format!(
            "insert into jobs.ready (kind, queue, priority, run_at, args)
             select '{kind}', 'default', {priority}, clock_timestamp() + interval '{delay}', '{ARGS}'
             from generate_series(1, {jobs})"
        ))
        .await?;
    Ok(())
}

/// Restores the state at the beginning of a run: `waiting` due jobs, and no running ones. Then it vacuums and writes a
/// checkpoint.
pub(crate) async fn fill(database: &Database<'_>, waiting: u64) -> Result<()> {
    database.client.batch_execute("delete from jobs.running").await?;
    let due = database.count("select count(*) from jobs.ready where run_at <= now()").await?;
    ready(&database.client, "noop", waiting.saturating_sub(due.unsigned_abs()), 0, "0").await?;
    database.settle().await
}

/// Inserts waiting jobs into the queue of slow ones.
pub(crate) async fn slow(client: &Client, jobs: u64) -> Result<()> {
    ready(client, "slow", jobs, 0, "0").await?;
    client.execute("update jobs.ready set queue = $1 where kind = 'slow'", &[&crate::kinds::SLOW_QUEUE]).await?;
    Ok(())
}

/// Inserts jobs that were completed within the last day.
pub(crate) async fn history(client: &Client, jobs: u64) -> Result<()> {
    client
        .batch_execute(&format!(
            "insert into jobs.finished (id, run_at, enqueued_at, claimed_at, finished_at, expires_at, lease, state, priority,
                 attempt, max_attempts, crashes, worker, kind, queue, args)
             select nextval('jobs.job_id'), at, at, at, at, at + interval '1 day', 1, 1, 0,
                 1, 25, 0, '{worker}', 'noop', 'default', '{ARGS}'
             from (select now() - interval '12 hours' + i * interval '1 millisecond' as at from generate_series(1, {jobs}) i) t",
            worker = super::WORKER,
        ))
        .await?;
    Ok(())
}
