//! `awa` with its queue storage and the settings of its own throughput benchmark.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use awa::model::insert::params;
use awa::{
    Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig, insert_with, migrations,
};
use serde::{Deserialize, Serialize};
use sqlx_of_awa::Connection as _;
use sqlx_of_awa::postgres::{PgConnection, PgPool, PgPoolOptions};

use crate::gate::Gate;
use crate::handler::{self, Payload};
use crate::system::{Producer, System};

const QUEUE: &str = "default";
const CONNECTIONS: u32 = 24;

/// Most completions are stored in batches.
macro_rules! completed {
    () => {
        "((select count(*) from awa.done_entries where state = 'completed') \
            + (select coalesce(sum(completed_count), 0)::bigint from awa.receipt_completion_batches))"
    };
}

#[derive(Clone, Serialize, Deserialize, JobArgs)]
struct Noop {
    id: i64,
    name: String,
}

impl From<Payload> for Noop {
    fn from(Payload { id, name }: Payload) -> Self {
        Self { id, name }
    }
}

pub(crate) struct Awa;

async fn pool(url: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(connections).connect(url).await?)
}

#[async_trait(?Send)]
impl System for Awa {
    fn settings(&self) -> &'static str {
        "queue storage, 1024 workers, claims of 512, no deadlines, poll 50 ms, 24 connections; finished jobs kept for 24 h"
    }

    async fn migrate(&self, url: &str) -> Result<()> {
        let pool = pool(url, 1).await?;
        migrations::run(&pool).await?;
        // The first worker does this when it starts. Without it, jobs that are enqueued before go to the storage of old
        // versions.
        sqlx_of_awa::query("select awa.storage_auto_finalize_if_fresh('awa')").execute(&pool).await?;
        pool.close().await;
        Ok(())
    }

    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>> {
        let conn = PgConnection::connect(url).await?;
        let options = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let store = QueueStorage::new(QueueStorageConfig::default())?;
        Ok(Box::new(AwaProducer { conn, pool: options.connect(url).await?, store }))
    }

    async fn work(&self, url: &str, gate: Gate) -> Result<()> {
        let queue = QueueConfig {
            max_workers: 1_024,
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let client = Client::builder(pool(url, CONNECTIONS).await?)
            .queue(QUEUE, queue)
            .register::<Noop, _, _>(|job, _ctx| async move {
                handler::handle(job.id).await;
                Ok(JobResult::Completed)
            })
            .build()?;
        gate.pass().await;
        client.start().await?;
        std::future::pending().await
    }

    fn left(&self) -> &'static str {
        // Jobs and completions are both appended. The view of all jobs joins them, which takes minutes when the queue
        // is full.
        concat!("select (select count(*) from awa.ready_entries) - ", completed!())
    }

    fn kept(&self) -> Option<&'static str> {
        Some(concat!("select ", completed!()))
    }
}

struct AwaProducer {
    conn: PgConnection,
    /// The bulk function requires a pool.
    pool: PgPool,
    store: QueueStorage,
}

#[async_trait]
impl Producer for AwaProducer {
    async fn one(&mut self, job: Payload) -> Result<()> {
        insert_with(&mut self.conn, &Noop::from(job), InsertOpts::default()).await?;
        Ok(())
    }

    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()> {
        let jobs = jobs.into_iter().map(|job| params(&Noop::from(job))).collect::<Result<Vec<_>, _>>()?;
        self.store.enqueue_params_copy(&self.pool, &jobs).await?;
        Ok(())
    }
}
