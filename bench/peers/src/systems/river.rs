//! `riverqueue`, with the settings of its own benchmark (`riverqueue bench`): 2,000 workers, a fetch every 2 ms at
//! most, a poll every 20 ms, 50 connections, and 5,000 jobs per bulk insert. The cooldown of the client is as short as
//! that of the queue. With the default of 100 ms, most inserts would not notify, and their jobs would wait for the next
//! poll.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use riverqueue::database::begin_postgres;
use riverqueue::migrate::PostgresMigrator;
use riverqueue::{BoxError, Client, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::gate::Gate;
use crate::handler::{self, Payload};
use crate::system::{Producer, System};

const WORKERS: usize = 2_000;
const CONNECTIONS: u32 = 50;
const COOLDOWN: Duration = Duration::from_millis(2);
const POLL: Duration = Duration::from_millis(20);
/// The most jobs per call of the bulk function.
const CHUNK: usize = 5_000;

#[derive(Clone, Deserialize, JobArgs, Serialize)]
#[river(kind = "noop")]
struct Noop {
    #[serde(flatten)]
    payload: Payload,
}

async fn noop(_: WorkContext, job: Job<Noop>) -> Result<WorkOutcome, BoxError> {
    handler::handle(job.args.payload.id).await;
    Ok(WorkOutcome::Complete)
}

pub(crate) struct River;

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(connections).connect(url).await?)
}

#[async_trait(?Send)]
impl System for River {
    fn settings(&self) -> &'static str {
        "2000 workers, a fetch every 2 ms at most, poll 20 ms, bulk inserts of 5000, 50 connections; finished jobs kept for 24 h"
    }

    async fn migrate(&self, url: &str) -> Result<()> {
        let pool = pool(url, 1).await?;
        PostgresMigrator::new(pool.clone()).migrate_up().await?;
        pool.close().await;
        Ok(())
    }

    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>> {
        let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false).connect(url).await?;
        let client = Client::builder(pool.clone()).fetch_cooldown(COOLDOWN).build()?;
        Ok(Box::new(RiverProducer { client, pool }))
    }

    async fn work(&self, url: &str, gate: Gate) -> Result<()> {
        let mut workers = Workers::new();
        workers.add_fn(noop)?;
        let queue = QueueConfig::new(WORKERS).with_fetch_cooldown(COOLDOWN).with_fetch_poll_interval(POLL);
        let client = Client::builder(pool(url, CONNECTIONS).await?)
            .fetch_cooldown(COOLDOWN)
            .workers(workers)
            .queue("default", queue)
            .build()?;
        gate.pass().await;
        client.start()?.wait().await?;
        Ok(())
    }

    fn left(&self) -> &'static str {
        "select count(*) from river_job where state <> 'completed'"
    }

    fn kept(&self) -> Option<&'static str> {
        Some("select count(*) from river_job where state = 'completed'")
    }
}

/// The pool has one connection.
struct RiverProducer {
    client: Client,
    pool: PgPool,
}

#[async_trait]
impl Producer for RiverProducer {
    async fn one(&mut self, job: Payload) -> Result<()> {
        self.client.insert(Noop { payload: job }).await?;
        Ok(())
    }

    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()> {
        let mut transaction = begin_postgres(&self.pool).await?;
        for chunk in jobs.chunks(CHUNK) {
            let jobs = chunk.iter().map(|job| Noop { payload: job.clone() });
            self.client.insert_many(jobs).tx(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}
