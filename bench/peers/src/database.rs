//! Creates, fills, copies and drops databases. Each run has its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio_postgres::{Client, NoTls};
use url::Url;

use crate::name::Name;
use crate::systems;

/// The prefix of the name of every database of this program.
const PREFIX: &str = "jobs_peers";

/// How often it is checked whether a run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A PostgreSQL server.
pub(crate) struct Server {
    url: Url,
    next: AtomicU32,
}

/// A database on the server. [`Server::clear`] drops it.
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Opens a connection for this program's own SQL.
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

    /// Creates a database from a template.
    async fn create(&self, from: &str) -> Result<Database> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}_{}_{number}", std::process::id());
        self.execute(&format!("create database {name} template {from}")).await?;
        let mut url = self.url.clone();
        url.set_path(&name);
        Ok(Database { name, url: url.into() })
    }

    /// Creates a database with a system's schema and this many waiting jobs.
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

    /// Copies a database that is not used any more.
    pub(crate) async fn copy(&self, template: &Database) -> Result<Database> {
        let name = &template.name;
        self.execute(&format!("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{name}'"))
            .await?;
        let database = self.create(name).await?;
        self.execute("checkpoint").await?;
        Ok(database)
    }

    /// Vacuums and writes a checkpoint, so that autovacuum and the checkpointer have no work left from before the run.
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

    /// Drops all databases of this process that still exist.
    pub(crate) async fn clear(&self) -> Result<()> {
        let client = connect(self.url.as_str()).await?;
        let mine = format!("{PREFIX}\\_{}\\_%", std::process::id());
        for row in client.query("select datname from pg_database where datname like $1", &[&mine]).await? {
            let name: String = row.get(0);
            self.execute(&format!("drop database {name} with (force)")).await?;
        }
        Ok(())
    }

    /// Returns the server's version and settings, for the report.
    pub(crate) async fn describe(&self) -> Result<String> {
        let client = connect(self.url.as_str()).await?;
        let sql = "select format('PostgreSQL %s, fsync %s, synchronous_commit %s, shared_buffers %s',
            current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
            current_setting('shared_buffers'))";
        Ok(client.query_one(sql, &[]).await?.get(0))
    }
}

impl Database {
    /// Waits until the system's own tables show that every job is done, or until the limit. Returns whether they do.
    pub(crate) async fn await_done(&self, system: Name, limit: Duration) -> Result<bool> {
        let client = connect(&self.url).await?;
        let query = client.prepare(systems::of(system).left()).await?;
        let done = async {
            while client.query_one(&query, &[]).await?.get::<_, i64>(0) > 0 {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(limit, done).await {
            Ok(done) => done.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Returns how many jobs in the system's tables are not done yet.
    pub(crate) async fn left(&self, system: Name) -> Result<i64> {
        Ok(connect(&self.url).await?.query_one(systems::of(system).left(), &[]).await?.get(0))
    }

    /// Returns how many finished jobs the system's tables contain. `None` if the system does not keep them.
    pub(crate) async fn kept(&self, system: Name) -> Result<Option<i64>> {
        let Some(sql) = systems::of(system).kept() else { return Ok(None) };
        Ok(Some(connect(&self.url).await?.query_one(sql, &[]).await?.get(0)))
    }
}
