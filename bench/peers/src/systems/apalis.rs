//! `apalis-postgres`, with the settings of its own example. Handlers run on the runtime. `NOTIFY` wakes the worker; if
//! a notification is missed, a timer does. Three settings differ: the batches are as large as is useful, the timer is
//! shorter, and there is no lock per task.

use std::time::Duration;

use anyhow::Result;
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnection, PgPoolOptions};

use crate::gate::Gate;
use crate::handler::{self, Payload};
use crate::system::{Producer, System};

const QUEUE: &str = "noop";
const BATCH: usize = 5_000;
/// The most handlers that run at once.
const CONCURRENCY: usize = 10_000;
/// The most jobs per statement of the bulk function. With larger arrays, a statement is slower.
const CHUNK: usize = 1_000;
/// For jobs whose `NOTIFY` arrived while the worker was busy. The examples have such a timer, with a longer interval.
const POLL: Duration = Duration::from_millis(100);

pub(crate) struct Apalis;

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(connections).connect(url).await?)
}

async fn noop(job: Payload) -> Result<(), BoxDynError> {
    handler::handle(job.id).await;
    Ok(())
}

#[async_trait(?Send)]
impl System for Apalis {
    fn settings(&self) -> &'static str {
        "batches of 5000, not locked one by one, woken by NOTIFY, poll 100 ms, handlers spawned, at most 10000 at once, 10 connections; finished jobs kept"
    }

    async fn migrate(&self, url: &str) -> Result<()> {
        let pool = pool(url, 1).await?;
        PostgresStorage::setup(&pool).await?;
        pool.close().await;
        Ok(())
    }

    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>> {
        Ok(Box::new(ApalisProducer { conn: PgConnection::connect(url).await? }))
    }

    async fn work(&self, url: &str, gate: Gate) -> Result<()> {
        let pool = pool(url, 10).await?;
        let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
        let backend = PostgresStorage::<Payload>::new(&pool).with_config(config).with_pubsub().poll_with_interval(POLL);
        let worker = WorkerBuilder::new("noop-worker")
            .backend(backend)
            .concurrency(CONCURRENCY)
            .parallelize(tokio::spawn)
            .build(noop);
        gate.pass().await;
        worker.run().await?;
        Ok(())
    }

    fn left(&self) -> &'static str {
        "select count(*) from apalis.jobs where status <> 'Done'"
    }

    fn kept(&self) -> Option<&'static str> {
        Some("select count(*) from apalis.jobs where status = 'Done'")
    }
}

struct ApalisProducer {
    conn: PgConnection,
}

async fn push(conn: &mut PgConnection, jobs: &[Payload]) -> Result<()> {
    let encode = |job: &Payload| Ok(TaskBuilder::new(serde_json::to_vec(job)?).build());
    let tasks = jobs.iter().map(encode).collect::<Result<Vec<_>>>()?;
    apalis_postgres::queries::push_tasks(conn, QUEUE, tasks).await?;
    Ok(())
}

#[async_trait]
impl Producer for ApalisProducer {
    async fn one(&mut self, job: Payload) -> Result<()> {
        push(&mut self.conn, &[job]).await
    }

    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()> {
        if jobs.len() <= CHUNK {
            return push(&mut self.conn, &jobs).await;
        }
        let mut transaction = self.conn.begin().await?;
        for chunk in jobs.chunks(CHUNK) {
            push(&mut transaction, chunk).await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}
