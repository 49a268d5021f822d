//! The schema's versions: what is there, what comes next.

use std::sync::Arc;

use async_trait::async_trait;
use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::storage::StorageResult;

use crate::error::{MigrateError, storage_error};
use crate::ledger::{self, Applied, missing, newest_applied};
use crate::migrations::{LiveJobs, Migration, Migrator, SQLITE};
use crate::sqlite::queries::ledger as statements;
use crate::sqlite::slot::Slot;

/// What each `down.sql` looks for before it deletes jobs that wait or run: SQLite has no settings.
const ALLOW_DROP: &str = "create table if not exists jobs_allow_drop (yes integer)";

/// Moves a file from version to version.
pub(super) struct SqliteMigrator {
    pub(super) writer: Arc<Slot>,
}

#[async_trait]
impl Migrator for SqliteMigrator {
    fn known(&self) -> &'static [Migration] {
        SQLITE
    }

    async fn applied(&self) -> StorageResult<Vec<i32>> {
        let ledger = self.writer.read(applied).await?;
        Ok(ledger.iter().map(|applied| applied.version).collect())
    }

    async fn up(&self) -> StorageResult<Vec<&'static Migration>> {
        self.writer.run(|conn| up(conn).map_err(Into::into)).await
    }

    async fn down(&self, live: LiveJobs) -> StorageResult<Option<&'static Migration>> {
        self.writer.run(move |conn| conn.transaction(|conn| down(conn, live)).map_err(Into::into)).await
    }
}

/// Applies what is missing, each version in a transaction of its own.
pub(super) fn up<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut done = Vec::new();
    while let Some(migration) = conn.transaction(step)? {
        done.push(migration);
    }
    Ok(done)
}

fn step<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> Result<Option<&'static Migration>, MigrateError> {
    conn.batch_execute(statements::LOCK)?;
    let next = next(&applied(conn)?)?;
    if let Some(migration) = next {
        conn.batch_execute(migration.up).map_err(|source| failed(migration, source))?;
    }
    Ok(next)
}

fn down(conn: &mut SqliteConnection, live: LiveJobs) -> Result<Option<&'static Migration>, MigrateError> {
    conn.batch_execute(statements::LOCK)?;
    let Some(migration) = newest_applied(SQLITE, &applied(conn)?)? else { return Ok(None) };
    if live == LiveJobs::Delete {
        conn.batch_execute(ALLOW_DROP)?;
    }
    conn.batch_execute(migration.down).map_err(|source| failed(migration, source))?;
    Ok(Some(migration))
}

/// The ledger; empty if there is no ledger.
fn applied<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> QueryResult<Vec<Applied>> {
    match statements::exists().get_result::<i64>(conn)? {
        0 => Ok(Vec::new()),
        _ => statements::rows().load(conn),
    }
}

/// The first version that is not applied, unless the file is ahead of this program.
pub(super) fn next(rows: &[Applied]) -> Result<Option<&'static Migration>, MigrateError> {
    Ok(missing(SQLITE, rows)?.into_iter().next())
}

pub(super) fn failed(migration: &'static Migration, error: diesel::result::Error) -> MigrateError {
    MigrateError::Failed { version: migration.version, name: migration.name, error }
}

/// One line that says what to do, unless this program can serve the schema.
pub(super) fn check(conn: &mut SqliteConnection) -> StorageResult<()> {
    ledger::check(SQLITE, &applied(conn).map_err(storage_error)?)
}
