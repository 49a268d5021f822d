//! The PostgreSQL server: the benchmark's databases, the server's settings and its counters.

mod counters;
mod database;
mod url;

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};
use tokio_postgres::{Client, NoTls};

pub(crate) use counters::Counters;
pub(crate) use database::Database;

/// A PostgreSQL server.
pub(crate) struct Server {
    url: String,
    admin: Client,
    /// All databases that were created.
    databases: Mutex<Vec<String>>,
}

/// Opens a connection. A background task serves it until the client is dropped.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connecting to PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}

impl Server {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let admin = connect(url).await.context("DATABASE_URL names no PostgreSQL server that answers")?;
        Ok(Self { url: url.to_owned(), admin, databases: Mutex::default() })
    }

    /// Creates a database with the schema of `diesel-jobs`.
    pub(crate) async fn create(&self) -> Result<Database<'_>> {
        let name = {
            let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
            let number = databases.len();
            let name = format!("jobs_bench_{}_{number}", std::process::id());
            databases.push(name.clone());
            name
        };
        self.admin
            .batch_execute(&format!("create database {name}"))
            .await
            .context("the user of DATABASE_URL must be allowed to create databases")?;
        Database::open(self, name).await
    }

    /// Drops all databases that still exist. An interrupted measure does not drop its own.
    pub(crate) async fn clear(&self) {
        let databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for name in databases {
            if let Err(error) = self.drop_database(&name).await {
                eprintln!("warning: the database {name} could not be dropped: {error:#}");
            }
        }
    }

    async fn drop_database(&self, name: &str) -> Result<()> {
        self.admin.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
        Ok(())
    }

    /// Returns how many connections the server allows.
    pub(crate) async fn max_connections(&self) -> Result<usize> {
        let row = self.admin.query_one("select current_setting('max_connections')", &[]).await?;
        row.get::<_, String>(0).parse().context("reading max_connections")
    }

    /// Returns the server's settings that figures depend on.
    pub(crate) async fn settings(&self) -> Result<Map<String, Value>> {
        let names = [
            "server_version",
            "fsync",
            "synchronous_commit",
            "shared_buffers",
            "max_connections",
            "max_wal_size",
            "ssl",
        ];
        let mut settings = Map::new();
        for name in names {
            let row = self.admin.query_one("select current_setting($1)", &[&name]).await?;
            settings.insert(name.to_owned(), Value::from(row.get::<_, String>(0)));
        }
        Ok(settings)
    }
}

/// Returns the properties of the machine that figures depend on.
pub(crate) fn machine() -> Map<String, Value> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut settings = Map::new();
    settings.insert("jobs".to_owned(), env!("CARGO_PKG_VERSION").into());
    settings.insert("os".to_owned(), format!("{} {}", std::env::consts::OS, std::env::consts::ARCH).into());
    settings.insert("cores".to_owned(), cores.into());
    // Only Linux has these files. On other systems the settings lack these values.
    let value = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    if let Some(cpu) = value("/proc/cpuinfo", "model name") {
        settings.insert("cpu".to_owned(), cpu.into());
    }
    let memory = value("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    if let Some(kilobytes) = memory {
        settings.insert("memory_gb".to_owned(), ((kilobytes / 1024.0 / 1024.0 * 10.0).round() / 10.0).into());
    }
    settings
}
