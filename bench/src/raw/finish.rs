//! Finishes claimed jobs: as a batch, or one in a transaction of its own.

use anyhow::Result;
use tokio_postgres::{Client, Statement};

use super::WORKER;

/// Finishes through one connection.
pub(super) struct Finisher {
    client: Client,
    statement: Statement,
}

impl Finisher {
    /// `keep`: whether finished jobs become history.
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

    /// Finishes these jobs; answers how many there were.
    pub(super) async fn finish(&self, ids: &[i64]) -> Result<u64> {
        Ok(self.client.execute(&self.statement, &[&ids]).await?)
    }

    /// Finishes one job in a transaction that a handler could have written in.
    pub(super) async fn transact(&self, id: i64) -> Result<u64> {
        self.client.batch_execute("begin").await?;
        let finished = self.finish(&[id]).await?;
        self.client.batch_execute("commit").await?;
        Ok(finished)
    }
}
