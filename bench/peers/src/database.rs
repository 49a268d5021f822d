//! Databases for one run each: made, filled, copied and dropped.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio_postgres::{Client, NoTls};
use url::Url;

use crate::name::Name;
use crate::systems;

/// Every database of this program begins so.
const PREFIX: &str = "jobs_peers";

/// How often the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// The server.
pub(crate) struct Server {
    url: Url,
    next: AtomicU32,
}

/// A database on it. Dropped by [`Server::clear`].
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// A connection for SQL of this program's own.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("the PostgreSQL server cannot be reached; set DATABASE_URL to a server you may create databases on")?;
    tokio::spawn(connection);
    Ok(client)
}

impl Server {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let url = Url::parse(url).context("DATABASE_URL is not a URL such as postgres://user@host:5432/postgres")?;
        Ok(Self { url, next: AtomicU32::new(0) })
    }

    async fn execute(&self, sql: &str) -> Result<()> {
        let client = connect(self.url.as_str()).await?;
        client.batch_execute(sql).await.with_context(|| format!("the server refused: {sql}"))
    }

    /// An empty database.
    async fn create(&self, from: &str) -> Result<Database> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}_{}_{number}", std::process::id());
        self.execute(&format!("create database {name} template {from}")).await?;
        let mut url = self.url.clone();
        url.set_path(&name);
        Ok(Database { name, url: url.into() })
    }

    /// A database with a system's schema and so many waiting jobs.
    pub(crate) async fn with_jobs(
        &self,
        system: Name,
        n: usize,
        fill: impl AsyncFnOnce(&str) -> Result<()>,
    ) -> Result<Database> {
        let database = self.create("template1").await?;
        systems::of(system).migrate(&database.url).await.with_context(|| format!("migrating {}", system.text()))?;
        if n > 0 {
            fill(&database.url).await.with_context(|| format!("filling the queue of {}", system.text()))?;
        }
        self.settle(&database).await?;
        Ok(database)
    }

    /// A copy of a database nobody uses any more.
    pub(crate) async fn copy(&self, template: &Database) -> Result<Database> {
        let name = &template.name;
        self.execute(&format!("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{name}'"))
            .await?;
        let database = self.create(name).await?;
        self.execute("checkpoint").await?;
        Ok(database)
    }

    /// Leaves nothing to do for autovacuum and the checkpointer that has to do with what was before the run.
    pub(crate) async fn settle(&self, database: &Database) -> Result<()> {
        let client = connect(&database.url).await?;
        client.batch_execute("vacuum analyze").await?;
        client.batch_execute("checkpoint").await?;
        Ok(())
    }

    /// Drops a database.
    pub(crate) async fn drop(&self, database: Database) -> Result<()> {
        self.execute(&format!("drop database {} with (force)", database.name)).await
    }

    /// Drops all that this process made and that are still there.
    pub(crate) async fn clear(&self) -> Result<()> {
        let client = connect(self.url.as_str()).await?;
        let mine = format!("{PREFIX}\\_{}\\_%", std::process::id());
        for row in client.query("select datname from pg_database where datname like $1", &[&mine]).await? {
            let name: String = row.get(0);
            self.execute(&format!("drop database {name} with (force)")).await?;
        }
        Ok(())
    }

    /// What it is, for the reader of the results.
    pub(crate) async fn describe(&self) -> Result<String> {
        let client = connect(self.url.as_str()).await?;
        let sql = "select format('PostgreSQL %s, fsync %s, synchronous_commit %s, shared_buffers %s',
            current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
            current_setting('shared_buffers'))";
        Ok(client.query_one(sql, &[]).await?.get(0))
    }
}

impl Database {
    /// Waits until the system's own tables say that every job is done; answers whether they did before the limit.
    pub(crate) async fn await_done(&self, system: Name, limit: Duration) -> Result<bool> {
        let client = connect(&self.url).await?;
        let query = client.prepare(systems::of(system).left()).await?;
        let done = async {
            while client.query_one(&query, &[]).await?.get::<_, i64>(0) > 0 {
                tokio::time::sleep(LOOK).await;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(limit, done).await {
            Ok(done) => done.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// How many jobs the system's tables hold that are not yet done.
    pub(crate) async fn left(&self, system: Name) -> Result<i64> {
        Ok(connect(&self.url).await?.query_one(systems::of(system).left(), &[]).await?.get(0))
    }

    /// How many finished jobs the system's tables hold, if it keeps them.
    pub(crate) async fn kept(&self, system: Name) -> Result<Option<i64>> {
        let Some(sql) = systems::of(system).kept() else { return Ok(None) };
        Ok(Some(connect(&self.url).await?.query_one(sql, &[]).await?.get(0)))
    }
}
