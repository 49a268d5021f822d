//! Enqueues many jobs: a thousand per statement, or by COPY.

use anyhow::Result;
use futures_util::SinkExt as _;
use std::pin::pin;
use tokio_postgres::{Client, Statement};

use super::json::Json;
use super::seed::ARGS;

/// Jobs per statement.
const CHUNK: usize = 1000;

const INSERT: &str = "insert into jobs.ready (kind, queue, priority, run_at, max_attempts, tags, args)
select kind, queue, priority, clock_timestamp(), max_attempts, tags::text[], args
from unnest($1::text[], $2::text[], $3::smallint[], $4::smallint[], $5::text[], $6::json[])
    as job (kind, queue, priority, max_attempts, tags, args)
returning id";

/// Enqueues through one connection.
pub(crate) struct BulkEnqueuer {
    client: Client,
    statement: Statement,
}

impl BulkEnqueuer {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let client = super::connect(url).await?;
        let statement = client.prepare(INSERT).await?;
        Ok(Self { client, statement })
    }

    /// Enqueues the jobs in one transaction.
    pub(crate) async fn enqueue(&mut self, jobs: usize) -> Result<()> {
        let transaction = self.client.transaction().await?;
        let mut left = jobs;
        while left > 0 {
            let chunk = left.min(CHUNK);
            let (kinds, queues) = (vec!["noop"; chunk], vec!["default"; chunk]);
            let (priorities, attempts) = (vec![0_i16; chunk], vec![25_i16; chunk]);
            let (tags, args) = (vec![None::<&str>; chunk], vec![Json(ARGS); chunk]);
            transaction.query(&self.statement, &[&kinds, &queues, &priorities, &attempts, &tags, &args]).await?;
            left -= chunk;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Enqueues the jobs by COPY, which returns no ids.
    pub(crate) async fn copy(&self, jobs: usize) -> Result<()> {
        const BUFFER: usize = 64 * 1024;
        let mut sink =
            pin!(self.client.copy_in("copy jobs.ready (kind, queue, priority, max_attempts, args) from stdin").await?);
        let line = format!("noop\tdefault\t0\t25\t{ARGS}\n");
        let per_buffer = BUFFER / line.len();
        let mut left = jobs;
        while left > 0 {
            let lines = left.min(per_buffer);
            sink.feed(std::io::Cursor::new(line.repeat(lines).into_bytes())).await?;
            left -= lines;
        }
        sink.finish().await?;
        Ok(())
    }
}
