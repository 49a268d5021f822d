//! A database of the benchmark.

use anyhow::{Context as _, Result};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use tokio_postgres::Client;

use super::{Server, connect, url::with_database};

/// A database with the schema of `diesel-jobs`.
pub(crate) struct Database<'s> {
    server: &'s Server,
    pub(crate) name: String,
    pub(crate) url: String,
    /// For preparations and checks. It is never used during a measurement.
    pub(crate) client: Client,
}

impl<'s> Database<'s> {
    pub(super) async fn open(server: &'s Server, name: String) -> Result<Self> {
        let url = with_database(&server.url, &name)?;
        let mut conn = AsyncPgConnection::establish(&url).await.context("connecting through Diesel")?;
        diesel_jobs::migrate(&mut conn).await.context("creating the schema")?;
        let client = connect(&url).await?;
        Ok(Self { server, name, url, client })
    }

    /// Opens a connection like an application's.
    pub(crate) async fn connection(&self) -> Result<AsyncPgConnection> {
        AsyncPgConnection::establish(&self.url).await.context("connecting through Diesel")
    }

    /// Vacuums, updates the statistics and writes a checkpoint, so that none of that is left to do during the
    /// measurement.
    pub(crate) async fn settle(&self) -> Result<()> {
        self.client.batch_execute("vacuum analyze").await?;
        self.client
            .batch_execute("checkpoint")
            .await
            .context("a checkpoint before each run keeps them alike; grant the user of DATABASE_URL pg_checkpoint")
    }

    /// Counts the statements that clients send to this database from now on, but none of its own. In other databases
    /// the server may count nothing, so that this costs nothing there.
    pub(crate) async fn count_statements(&self) -> Result<()> {
        let name = &self.name;
        let count = format!(
            "create extension pg_stat_statements; set pg_stat_statements.track = 'none';
             alter database {name} set compute_query_id = 'on'; alter database {name} set pg_stat_statements.track = 'top'"
        );
        self.client.batch_execute(&count).await.context(
            "the server counts statements if it has shared_preload_libraries = 'pg_stat_statements', and DATABASE_URL must name a superuser",
        )
    }

    /// Returns how many statements were counted so far.
    pub(crate) async fn statements(&self) -> Result<f64> {
        let counted = "select coalesce(sum(calls), 0)::float8 from pg_stat_statements
                       where dbid = (select oid from pg_database where datname = current_database())";
        let row = self.client.query_one(counted, &[]).await;
        Ok(row
            .context("the server counts statements if it has shared_preload_libraries = 'pg_stat_statements'")?
            .get(0))
    }

    /// Returns the number that the query selects.
    pub(crate) async fn count(&self, sql: &str) -> Result<i64> {
        Ok(self.client.query_one(sql, &[]).await?.get(0))
    }

    /// Drops the database.
    pub(crate) async fn close(self) -> Result<()> {
        drop(self.client);
        self.server.drop_database(&self.name).await
    }
}
