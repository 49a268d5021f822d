//! A temporary SQLite file. It is deleted when dropped.

use anyhow::{Context as _, Result};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use tempfile::TempDir;

use crate::raw::sqlite::connect;

pub(super) struct File {
    _directory: TempDir,
    path: String,
    /// The settings that figures depend on.
    pub(super) settings: Vec<(&'static str, String)>,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

#[derive(QueryableByName)]
struct Version {
    #[diesel(sql_type = Text)]
    version: String,
}

impl File {
    /// Creates the file with the schema of `diesel-jobs`.
    pub(super) fn create() -> Result<Self> {
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        let path = directory
            .path()
            .join("jobs.db")
            .to_str()
            .context("the path of the temporary directory is not UTF-8")?
            .to_owned();
        let mut conn = connect(&path)?;
        diesel_jobs::migrate(&mut conn)?;
        let Version { version } = diesel::sql_query("select sqlite_version() as version").get_result(&mut conn)?;
        let settings = vec![("sqlite_version", version), ("sqlite_synchronous", "full".to_owned())];
        Ok(Self { _directory: directory, path, settings })
    }

    /// Opens a connection like an application's.
    pub(super) fn connection(&self) -> Result<SqliteConnection> {
        connect(&self.path)
    }

    /// Returns the URL for workers.
    pub(super) fn url(&self) -> String {
        format!("sqlite://{}", self.path)
    }

    /// Returns how many jobs are in this state.
    pub(super) fn count(&self, state: &str) -> Result<i64> {
        let query = diesel::sql_query("select count(*) as count from jobs_job where state = ?").bind::<Text, _>(state);
        let Count { count } = query.get_result(&mut self.connection()?)?;
        Ok(count)
    }
}
