//! The database that is measured: created, filled, and removed at the end.

use anyhow::{Context as _, Result, anyhow};
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, SqliteConnection};
use diesel_jobs::Database;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::{Kind, seed};

/// A database of this program's own.
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) database: Database,
    place: Place,
}

enum Place {
    /// The server's URL, and the name of the database.
    Postgres(String, String),
    /// The file, and the directory that is deleted with it.
    Sqlite(String, TempDir),
}

/// Sends statements to a PostgreSQL server, each on its own.
async fn execute(url: &str, statements: impl IntoIterator<Item = String>) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connecting to PostgreSQL")?;
    let serving = tokio::spawn(connection);
    for statement in statements {
        let line = statement.trim().lines().find(|line| !line.starts_with("--")).unwrap_or_default().to_owned();
        client.batch_execute(&statement).await.with_context(|| line)?;
    }
    drop(client);
    serving.await?.context("the connection to PostgreSQL")
}

impl Store {
    pub(crate) async fn create(kind: Kind, server: Option<&str>) -> Result<Self> {
        let (url, place) = match kind {
            Kind::Postgres => {
                let server = server.ok_or_else(|| anyhow!("write the server's URL into DATABASE_URL"))?;
                let name = format!("jobs_pages_{}", std::process::id());
                execute(server, [format!("create database {name}")]).await?;
                let (address, _) = server.rsplit_once('/').context("DATABASE_URL names no database")?;
                (format!("{address}/{name}"), Place::Postgres(server.to_owned(), name))
            }
            Kind::Sqlite => {
                // Not under /tmp, which may be in memory.
                let directory = TempDir::new_in(std::env::current_dir()?)?;
                let file = directory.path().join("pages.db").display().to_string();
                (format!("sqlite://{file}"), Place::Sqlite(file, directory))
            }
        };
        let database = Database::open(&url, 0).await?;
        database.migrator.up().await.context("creating the schema")?;
        Ok(Self { url, database, place })
    }

    pub(crate) async fn fill(&self, finished: u64, waiting: u64) -> Result<()> {
        match &self.place {
            Place::Postgres(..) => execute(&self.url, seed::postgres(finished, waiting)).await,
            Place::Sqlite(file, _) => {
                let (file, statements) = (file.clone(), seed::sqlite(finished, waiting));
                let filled = tokio::task::spawn_blocking(move || -> Result<()> {
                    let mut conn = SqliteConnection::establish(&file)?;
                    statements
                        .iter()
                        .try_for_each(|statement| conn.batch_execute(statement).with_context(|| statement.clone()))
                });
                filled.await?
            }
        }
    }

    pub(crate) async fn remove(self) -> Result<()> {
        drop(self.database);
        match self.place {
            Place::Postgres(server, name) => execute(&server, [format!("drop database {name} with (force)")]).await,
            Place::Sqlite(_, directory) => directory.close().context("deleting the file"),
        }
    }
}
