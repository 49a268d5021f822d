//! The interface that a system implements to be measured.

use anyhow::Result;
use async_trait::async_trait;

use crate::gate::Gate;
use crate::handler::Payload;

/// A job queue.
#[async_trait(?Send)]
pub(crate) trait System: Sync {
    /// Returns the settings in use, for the report.
    fn settings(&self) -> &'static str;

    /// Creates the schema in an empty database.
    async fn migrate(&self, url: &str) -> Result<()>;

    /// Connects a producer. It holds one connection, so that no system has the cost of a pool.
    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>>;

    /// Connects a worker, passes the gate, and runs jobs until the process is killed.
    async fn work(&self, url: &str, gate: Gate) -> Result<()>;

    /// Returns a query for the number of jobs that are not done, as `bigint`. It must be cheap when there are none.
    fn left(&self) -> &'static str;

    /// Returns a query for the number of finished jobs that are kept, as `bigint`. `None` if the system keeps none.
    fn kept(&self) -> Option<&'static str>;
}

/// Enqueues jobs.
#[async_trait]
pub(crate) trait Producer: Send {
    /// Enqueues one job in a transaction of its own.
    async fn one(&mut self, job: Payload) -> Result<()>;

    /// Enqueues many jobs with the system's own bulk function.
    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()>;
}
