//! `graphile_worker`, with the settings of its own throughput benchmark: local queues of 5,000 jobs, and completions
//! written together. The numbers of queues and of concurrent handlers are the fastest of those that were tried.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};

use crate::gate::Gate;
use crate::handler::{self, Payload};
use crate::system::{Producer, System};

const SCHEMA: &str = "graphile_worker";
/// The pool's size if the worker creates the pool.
const CONNECTIONS: u32 = 20;

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Noop(Payload);

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        handler::handle(self.0.id).await;
        Ok::<(), String>(())
    }
}

pub(crate) struct Graphile;

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(connections).connect(url).await?)
}

#[async_trait(?Send)]
impl System for Graphile {
    fn settings(&self) -> &'static str {
        "2 local queues of 5000, concurrency 200, poll 5 ms, completions batched for 5 ms, 20 connections; finished jobs deleted"
    }

    async fn migrate(&self, url: &str) -> Result<()> {
        let pool = pool(url, 1).await?;
        WorkerUtils::new(pool.clone(), SCHEMA).migrate().await?;
        pool.close().await;
        Ok(())
    }

    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>> {
        // The utilities require a pool. The statements use the connection.
        let utils = WorkerUtils::new(PgPoolOptions::new().connect_lazy(url)?, SCHEMA);
        Ok(Box::new(GraphileProducer { utils, conn: PgConnection::connect(url).await? }))
    }

    async fn work(&self, url: &str, gate: Gate) -> Result<()> {
        let worker = WorkerOptions::default()
            .pg_pool(pool(url, CONNECTIONS).await?)
            .schema(SCHEMA)
            .concurrency(200)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5_000).with_queue_count(2))
            .define_job::<Noop>()
            .init()
            .await?;
        gate.pass().await;
        worker.run().await?;
        Ok(())
    }

    fn left(&self) -> &'static str {
        "select count(*) from graphile_worker._private_jobs"
    }

    fn kept(&self) -> Option<&'static str> {
        None
    }
}

struct GraphileProducer {
    utils: WorkerUtils,
    conn: PgConnection,
}

#[async_trait]
impl Producer for GraphileProducer {
    async fn one(&mut self, job: Payload) -> Result<()> {
        self.utils.clone().with_executor(&mut self.conn).add_job(Noop(job), JobSpec::default()).await?;
        Ok(())
    }

    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = jobs.into_iter().map(|job| (Noop(job), &spec)).collect();
        self.utils.clone().with_executor(&mut self.conn).add_jobs(&jobs).await?;
        Ok(())
    }
}
