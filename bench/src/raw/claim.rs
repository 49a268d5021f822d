//! Claims a batch of the default queue.

use std::time::SystemTime;

use anyhow::Result;
use tokio_postgres::{Client, Statement};

use super::{BATCH, WORKER};

/// Claims through one connection. It remembers the `run_at` of its newest job and searches from there, like the
/// worker's scan floor. With at most one producer, no job can appear below it.
pub(super) struct Claimer {
    client: Client,
    statement: Statement,
    floor: SystemTime,
}

impl Claimer {
    pub(super) async fn connect(url: &str, batch: usize) -> Result<Self> {
        let client = super::connect(url).await?;
        client.batch_execute("set synchronous_commit = off").await?;
        let statement = client
            .prepare(&format!(
                "with claimed as (
    delete from jobs.ready where ctid = any(array(
        select ctid from jobs.ready
        where queue = 'default' and priority = 0 and run_at >= $1 and run_at <= now()
        order by run_at, id limit {batch} for update skip locked
    ))
    returning id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, kind, queue, tags, args
)
insert into jobs.running (id, run_at, enqueued_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args)
select id, run_at, enqueued_at, lease + 1, priority, attempt + 1, max_attempts, crashes, '{WORKER}'::uuid, kind, queue, tags, args
from claimed
returning id, args, run_at"
            ))
            .await?;
        Ok(Self { client, statement, floor: SystemTime::UNIX_EPOCH })
    }

    /// Returns the ids of the claimed jobs.
    pub(super) async fn claim(&mut self) -> Result<Vec<i64>> {
        let rows = self.client.query(&self.statement, &[&self.floor]).await?;
        if let Some(newest) = rows.iter().map(|row| row.get(2)).max() {
            self.floor = newest;
        }
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

impl Claimer {
    /// The batch size for one job at a time.
    pub(super) const ONE: usize = 1;
    /// The batch size for throughput.
    pub(super) const MANY: usize = BATCH;
}
