//! What a system has to offer to be measured.

use anyhow::Result;
use async_trait::async_trait;
use clap::ValueEnum;

use crate::handler::Payload;
use crate::systems::{apalis::Apalis, awa::Awa, graphile::Graphile, ours::Ours};
use crate::worker::Gate;

/// Every system, with the name it has in tables and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Ours; finished jobs stay readable for 24 hours.
    Jobs,
    /// Ours; finished jobs are deleted at once.
    JobsRetainNone,
    /// graphile_worker.
    Graphile,
    /// apalis-postgres.
    Apalis,
    /// awa.
    Awa,
}

impl Name {
    /// All of them.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// As people write it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::JobsRetainNone => "jobs (retain none)",
            Self::Graphile => "graphile_worker",
            Self::Apalis => "apalis-postgres",
            Self::Awa => "awa",
        }
    }

    /// The crate whose version counts.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Jobs | Self::JobsRetainNone => "jobs",
            Self::Graphile => "graphile_worker",
            Self::Apalis => "apalis-postgres",
            Self::Awa => "awa",
        }
    }

    /// The system itself.
    pub(crate) fn system(self) -> &'static dyn System {
        match self {
            Self::Jobs => &Ours { keep: true },
            Self::JobsRetainNone => &Ours { keep: false },
            Self::Graphile => &Graphile,
            Self::Apalis => &Apalis,
            Self::Awa => &Awa,
        }
    }
}

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
