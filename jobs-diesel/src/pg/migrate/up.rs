//! Applies the missing versions, each in a transaction of its own.

use diesel::pg::Pg;
use diesel_async::AsyncConnection;
use futures_util::future::BoxFuture;

#[cfg(feature = "postgres-sync")]
use super::applied_sync;
use super::{applied, failed, locks};
use crate::error::MigrateError;
use crate::ledger::missing;
use crate::migrations::Migration;

/// Applies the versions that are missing, and returns them. `theirs`: the connection is in a transaction of the
/// application.
pub(crate) fn up<'c, C: AsyncConnection<Backend = Pg>>(
    conn: &'c mut C,
    known: &'static [Migration],
    theirs: bool,
) -> BoxFuture<'c, Result<Vec<i32>, MigrateError>> {
    Box::pin(async move {
        let mut done = Vec::new();
        while let Some(version) = step(conn, known, theirs).await? {
            done.push(version);
        }
        Ok(done)
    })
}

/// Applies the first version that is missing, and returns it.
async fn step<C: AsyncConnection<Backend = Pg>>(
    conn: &mut C,
    known: &'static [Migration],
    theirs: bool,
) -> Result<Option<i32>, MigrateError> {
    conn.transaction(async |conn| {
        locks::begin(conn, theirs).await?;
        let Some(migration) = missing(known, &applied(conn).await?)?.into_iter().next() else { return Ok(None) };
        if !theirs {
            locks::lock_tables(conn, migration).await?;
        }
        conn.batch_execute(migration.up).await.map_err(|source| failed(migration, source))?;
        Ok(Some(migration.version))
    })
    .await
}

/// The same on a sync connection.
#[cfg(feature = "postgres-sync")]
pub(crate) fn up_sync<C>(conn: &mut C, known: &'static [Migration], theirs: bool) -> Result<(), MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    while step_sync(conn, known, theirs)? {}
    Ok(())
}

#[cfg(feature = "postgres-sync")]
fn step_sync<C>(conn: &mut C, known: &'static [Migration], theirs: bool) -> Result<bool, MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    conn.transaction(|conn| {
        locks::begin_sync(conn, theirs)?;
        let Some(migration) = missing(known, &applied_sync(conn)?)?.into_iter().next() else { return Ok(false) };
        if !theirs {
            locks::lock_tables_sync(conn, migration)?;
        }
        conn.batch_execute(migration.up).map_err(|source| failed(migration, source))?;
        Ok(true)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
