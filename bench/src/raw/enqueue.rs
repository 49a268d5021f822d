//! Enqueues one job in a transaction of its own.

use anyhow::Result;
use tokio_postgres::{Client, Statement};

use super::json::Json;
use super::seed::ARGS;

const INSERT: &str = "insert into jobs.ready (kind, queue, priority, run_at, max_attempts, tags, args)
values ($1, $2, $3, clock_timestamp(), $4::smallint, $5::text[], $6) returning id";

/// The statement also sends the notification.
const INSERT_AND_NOTIFY: &str = "insert into jobs.ready (kind, queue, priority, run_at, max_attempts, tags, args)
values ($1, $2, $3, clock_timestamp(), $4::smallint, $5::text[], $6) returning id, pg_notify('jobs', queue) is not null";

/// Enqueues through one connection.
pub(crate) struct Enqueuer {
    client: Client,
    statement: Statement,
}

impl Enqueuer {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Self::prepare(url, INSERT).await
    }

    pub(super) async fn notifying(url: &str) -> Result<Self> {
        Self::prepare(url, INSERT_AND_NOTIFY).await
    }

    async fn prepare(url: &str, statement: &str) -> Result<Self> {
        let client = super::connect(url).await?;
        let statement = client.prepare(statement).await?;
        Ok(Self { client, statement })
    }

    /// Enqueues a job that does nothing. Returns its id.
    pub(crate) async fn enqueue(&self) -> Result<i64> {
        let tags: Option<Vec<String>> = None;
        let row =
            self.client.query_one(&self.statement, &[&"noop", &"default", &0_i16, &25_i16, &tags, &Json(ARGS)]).await?;
        Ok(row.get(0))
    }
}
