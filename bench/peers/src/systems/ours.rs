//! `diesel-jobs` with its default settings.

use anyhow::Result;
use async_trait::async_trait;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::{Database, Enqueue as _, Worker, WorkerBuilder, job};

use crate::gate::Gate;
use crate::handler::{self, Payload};
use crate::system::{Producer, System};

/// A job that is kept for a day after its completion.
#[job]
async fn kept(id: i64, name: String) {
    let _ = name;
    handler::handle(id).await;
}

/// A job that is deleted at its completion.
#[job(retain = "none")]
async fn forgotten(id: i64, name: String) {
    let _ = name;
    handler::handle(id).await;
}

pub(crate) struct Ours {
    /// Whether finished jobs are kept.
    pub(crate) keep: bool,
}

#[async_trait(?Send)]
impl System for Ours {
    fn settings(&self) -> &'static str {
        if self.keep { "defaults; finished jobs kept for 24 h" } else { "defaults; retain = \"none\"" }
    }

    async fn migrate(&self, url: &str) -> Result<()> {
        let mut conn = AsyncPgConnection::establish(url).await?;
        diesel_jobs::migrate(&mut conn).await?;
        Ok(())
    }

    async fn producer(&self, url: &str) -> Result<Box<dyn Producer>> {
        Ok(Box::new(OurProducer { conn: AsyncPgConnection::establish(url).await?, keep: self.keep }))
    }

    async fn work(&self, url: &str, gate: Gate) -> Result<()> {
        // Like the bundled worker without options.
        let database = Database::open(url, WorkerBuilder::DEFAULT_SLOTS).await?;
        database.storage.check_schema().await?;
        let worker = Worker::builder(database.storage).build()?;
        gate.pass().await;
        worker.run_until(std::future::pending()).await?;
        Ok(())
    }

    fn left(&self) -> &'static str {
        "select (select count(*) from jobs.ready) + (select count(*) from jobs.running)"
    }

    fn kept(&self) -> Option<&'static str> {
        self.keep.then_some("select count(*) from jobs.job where state = 'completed'")
    }
}

struct OurProducer {
    conn: AsyncPgConnection,
    keep: bool,
}

#[async_trait]
impl Producer for OurProducer {
    async fn one(&mut self, Payload { id, name }: Payload) -> Result<()> {
        if self.keep {
            Kept { id, name }.enqueue(&mut self.conn).await?;
        } else {
            Forgotten { id, name }.enqueue(&mut self.conn).await?;
        }
        Ok(())
    }

    async fn many(&mut self, jobs: Vec<Payload>) -> Result<()> {
        if self.keep {
            let jobs = jobs.into_iter().map(|Payload { id, name }| Kept { id, name });
            diesel_jobs::enqueue_all(&mut self.conn, jobs).await?;
        } else {
            let jobs = jobs.into_iter().map(|Payload { id, name }| Forgotten { id, name });
            diesel_jobs::enqueue_all(&mut self.conn, jobs).await?;
        }
        Ok(())
    }
}
