//! Finishes claimed jobs: a batch in one statement, or one job in a transaction of its own.

use anyhow::Result;
use tokio_postgres::{Client, Statement};

use super::WORKER;

/// Finishes through one connection.
pub(super) struct Finisher {
    client: Client,
    statement: Statement,
}

impl Finisher {
    /// `keep`: whether finished jobs are stored as history.
    pub(super) async fn connect(url: &str, keep: bool) -> Result<Self> {
        let client = super::connect(url).await?;
        let moved = format!("delete from jobs.running where id = any($1) and worker = '{WORKER}'::uuid");
        let statement = if keep {
            format!(
                "with moved as (
    {moved}
    returning id, run_at, enqueued_at, claimed_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args
)
insert into jobs.finished (id, run_at, enqueued_at, claimed_at, expires_at, lease, state, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args)
select id, run_at, enqueued_at, claimed_at, now() + interval '24 hours', lease, 1, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args
from moved"
            )
        } else {
            moved
        };
        let statement = client.prepare(&statement).await?;
        Ok(Self { client, statement })
    }

    /// Finishes these jobs. Returns how many there were.
    pub(super) async fn finish(&self, ids: &[i64]) -> Result<u64> {
        Ok(self.client.execute(&self.statement, &[&ids]).await?)
    }

    /// Finishes one job in a transaction, in which a handler could have written.
    pub(super) async fn transact(&self, id: i64) -> Result<u64> {
        self.client.batch_execute("begin").await?;
        let finished = self.finish(&[id]).await?;
        self.client.batch_execute("commit").await?;
        Ok(finished)
    }
}
