//! What a system has to offer to be measured.

use anyhow::Result;
use async_trait::async_trait;

use crate::gate::Gate;
use crate::handler::Payload;

/// A job queue.
#[async_trait(?Send)]
pub(crate) trait System: Sync {
    /// What was set, for the reader of the results.
    fn settings(&self) -> &'static str;

    /// Creates the schema in an empty database.
    async fn migrate(&self, url: &str) -> Result<()>;

    /// Connects somebody who enqueues. One connection, held: nobody pays for a pool.
    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>>;

    /// Connects a worker, passes the gate, works for ever.
    async fn work(&self, url: &str, gate: Gate) -> Result<()>;

    /// A query that answers how many jobs are not yet done, as `bigint`; cheap when there are none.
    fn left(&self) -> &'static str;

    /// A query that answers how many finished jobs are kept, as `bigint`; `None` if the system keeps none.
    fn kept(&self) -> Option<&'static str>;
}

/// Somebody who enqueues.
#[async_trait]
pub(crate) trait Producer: Send {
    /// One job in a transaction of its own.
    async fn one(&mut self, job: Payload) -> Result<()>;

    /// Many jobs, by the system's own way for many.
    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()>;
}
