//! The schema's versions: what is there, what comes next.

use std::sync::Arc;

use async_trait::async_trait;
use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::sqlite::Sqlite;
use jobs_core::StorageError;
use jobs_core::storage::StorageResult;

use crate::error::{MigrateError, storage_error};
use crate::migrations::{Migration, Migrator, SQLITE};
use crate::sqlite::queries::ledger;
use crate::sqlite::slot::Slot;

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
        self.writer.read(applied).await
    }

    async fn up(&self) -> StorageResult<Vec<&'static Migration>> {
        self.writer.run(|conn| up(conn).map_err(Into::into)).await
    }

    async fn down(&self) -> StorageResult<Option<&'static Migration>> {
        self.writer.run(|conn| conn.transaction(down).map_err(Into::into)).await
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
    conn.batch_execute(ledger::LOCK)?;
    let next = next(&applied(conn)?)?;
    if let Some(migration) = next {
        conn.batch_execute(migration.up).map_err(|source| failed(migration, source))?;
    }
    Ok(next)
}

fn down(conn: &mut SqliteConnection) -> Result<Option<&'static Migration>, MigrateError> {
    conn.batch_execute(ledger::LOCK)?;
    let applied = applied(conn)?;
    let newest = newest(&applied)?;
    let Some(migration) = SQLITE.iter().find(|migration| Some(migration.version) == newest) else { return Ok(None) };
    conn.batch_execute(migration.down).map_err(|source| failed(migration, source))?;
    Ok(Some(migration))
}

/// The versions in the ledger; none if there is no ledger.
fn applied<C: LoadConnection<Backend = Sqlite>>(conn: &mut C) -> QueryResult<Vec<i32>> {
    match ledger::exists().get_result::<i64>(conn)? {
        0 => Ok(Vec::new()),
        _ => ledger::versions().load(conn),
    }
}

/// The first version that is not applied, unless the file is ahead of this program.
pub(super) fn next(applied: &[i32]) -> Result<Option<&'static Migration>, MigrateError> {
    newest(applied)?;
    Ok(SQLITE.iter().find(|migration| !applied.contains(&migration.version)))
}

fn newest(applied: &[i32]) -> Result<Option<i32>, MigrateError> {
    let known = SQLITE.last().map_or(0, |migration| migration.version);
    match applied.iter().max() {
        Some(&found) if found > known => Err(MigrateError::Newer { found, known }),
        newest => Ok(newest.copied()),
    }
}

pub(super) fn failed(migration: &'static Migration, source: diesel::result::Error) -> MigrateError {
    MigrateError::Failed { version: migration.version, name: migration.name, source }
}

/// Fails with one clear line unless the schema is exactly this program's.
pub(super) fn check(conn: &mut SqliteConnection) -> StorageResult<()> {
    let applied = applied(conn).map_err(storage_error)?;
    let missing = next(&applied)?;
    match (missing, newest(&applied)?) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(StorageError::Schema(
            "the tables of `jobs` are missing in this database; run `worker migrate`".to_owned(),
        )),
        (Some(missing), Some(found)) => Err(StorageError::Schema(format!(
            "the database's schema of `jobs` is at version {found} and lacks {:04}_{}, which this program needs; run \
             `worker migrate`",
            missing.version, missing.name
        ))),
    }
}
