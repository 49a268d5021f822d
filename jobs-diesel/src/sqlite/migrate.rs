//! Applies and reverts the versions of the schema.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::storage::{Finding, StorageResult};

use crate::error::{MigrateError, storage_error};
use crate::ledger::{self, Applied, missing, newest_applied};
use crate::migrations::{LiveJobs, Migration, Migrator, SQLITE};
use crate::sqlite::connect::BUSY_TIMEOUT;
use crate::sqlite::queries::ledger as statements;
use crate::sqlite::shared_connection::SharedConnection;

/// Each `down.sql` checks whether this table exists before it deletes waiting or running jobs. It is a table because
/// SQLite has no settings.
const ALLOW_DROP: &str = "create table if not exists jobs_allow_drop (yes integer)";

/// How long a migration waits for another transaction before it fails.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Applies and reverts the versions of the schema in a file.
pub(super) struct SqliteMigrator {
    pub(super) writer: Arc<SharedConnection>,
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
        self.writer.run(|conn| patiently(conn, up).map_err(Into::into)).await
    }

    async fn down(&self, live: LiveJobs) -> StorageResult<Option<&'static Migration>> {
        let down = move |conn: &mut SqliteConnection| conn.transaction(|conn| down(conn, live));
        self.writer.run(move |conn| patiently(conn, down).map_err(Into::into)).await
    }
}

/// Runs this with a longer wait for other transactions. Several processes of a deployment migrate at once, and SQLite
/// lets them pass in no order.
fn patiently<T>(
    conn: &mut SqliteConnection,
    migrate: impl FnOnce(&mut SqliteConnection) -> Result<T, MigrateError>,
) -> Result<T, MigrateError> {
    conn.batch_execute(&format!("pragma busy_timeout = {}", MIGRATION_TIMEOUT.as_millis()))?;
    let done = migrate(conn);
    conn.batch_execute(&format!("pragma busy_timeout = {}", BUSY_TIMEOUT.as_millis()))?;
    done
}

/// Applies the missing versions, each in its own transaction. Returns the versions that it applied.
pub(super) fn up<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut done = Vec::new();
    while let Some(migration) = conn.transaction(step)? {
        done.push(migration);
    }
    Ok(done)
}

fn step<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> Result<Option<&'static Migration>, MigrateError> {
    conn.batch_execute(statements::LOCK)?;
    let next = next(statements::exists().get_result::<i64>(conn)? > 0, &applied(conn)?)?;
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

/// Returns the rows of the ledger. Empty if there is no ledger.
fn applied<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> QueryResult<Vec<Applied>> {
    match statements::exists().get_result::<i64>(conn)? {
        0 => Ok(Vec::new()),
        _ => statements::rows().load(conn),
    }
}

/// Returns the first version that is not applied, `None` if there is none. Fails if this program cannot serve the
/// schema, or if there is a ledger without rows.
pub(super) fn next(has_ledger: bool, rows: &[Applied]) -> Result<Option<&'static Migration>, MigrateError> {
    if has_ledger && rows.is_empty() {
        let anew = "drop the tables and views of `diesel-jobs`, whose names begin with `jobs_`, and none of your own";
        return Err(MigrateError::Emptied { ledger: "jobs_schema_migration", anew });
    }
    Ok(missing(SQLITE, rows)?.into_iter().next())
}

pub(super) fn failed(migration: &'static Migration, error: diesel::result::Error) -> MigrateError {
    MigrateError::Failed { version: migration.version, name: migration.name, error }
}

/// Fails with one line of advice if this program cannot serve the schema.
pub(super) fn check(conn: &mut SqliteConnection) -> StorageResult<()> {
    ledger::check(SQLITE, &applied(conn).map_err(storage_error)?)
}

/// What the doctor says if this program cannot serve the schema.
pub(super) fn finding(conn: &mut SqliteConnection) -> StorageResult<Option<Finding>> {
    Ok(ledger::finding(SQLITE, &applied(conn).map_err(storage_error)?))
}
