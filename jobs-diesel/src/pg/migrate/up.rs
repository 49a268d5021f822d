//! Applies the missing versions, each in a transaction of its own.

use diesel::pg::Pg;
use diesel::sql_query;
use diesel_async::AsyncConnection;
use futures_util::future::BoxFuture;

use super::indexes::{self, Index, State};
use super::{PLACE, Place, applied, applied_sync, failed, locks};
use crate::error::MigrateError;
use crate::ledger::missing;
use crate::migrations::Migration;

/// What a transaction of a migration has come to.
enum Step {
    Applied(i32),
    /// First, this index must be created, or another process ends creating it.
    First(Index, State),
    NoneMissing,
}

/// Applies the versions that are missing, and returns them. `theirs`: the connection is in a transaction of the
/// application.
pub fn up<'c, C: AsyncConnection<Backend = Pg>>(
    conn: &'c mut C,
    known: &'static [Migration],
    theirs: bool,
) -> BoxFuture<'c, Result<Vec<i32>, MigrateError>> {
    Box::pin(async move {
        let (mut done, mut waits, mut deadlocks) = (Vec::new(), indexes::Waits::default(), 0);
        loop {
            match step(conn, known, theirs).await? {
                Step::Applied(version) => done.push(version),
                Step::First(index, State::InProgress) => tokio::time::sleep(waits.pause(&index)).await,
                Step::First(index, _) => indexes::create(conn, &index, &mut deadlocks).await?,
                Step::NoneMissing => return Ok(done),
            }
        }
    })
}

/// Applies the first version that is missing.
async fn step<C: AsyncConnection<Backend = Pg>>(
    conn: &mut C,
    known: &'static [Migration],
    theirs: bool,
) -> Result<Step, MigrateError> {
    conn.transaction(async |conn| {
        locks::begin(conn, theirs).await?;
        let Some(migration) = missing(known, &applied(conn).await?)?.into_iter().next() else {
            return Ok(Step::NoneMissing);
        };
        if migration.version == 1 {
            let place: Place = diesel_async::RunQueryDsl::get_result(sql_query(PLACE), conn).await?;
            place.check()?;
        }
        for index in indexes::of(migration) {
            let mut state = indexes::look(conn, &index).await?;
            if state == State::Invalid && !theirs {
                locks::lock_tables(conn, migration).await?;
                state = indexes::look(conn, &index).await?;
            }
            if state == State::Invalid {
                indexes::drop(conn, &index).await?;
            }
            if state != State::Ready && !theirs {
                return Ok(Step::First(index, state));
            }
        }
        if !theirs {
            locks::lock_tables(conn, migration).await?;
        }
        conn.batch_execute(migration.up).await.map_err(|source| failed(migration, source))?;
        Ok(Step::Applied(migration.version))
    })
    .await
}

/// The same on a sync connection.
pub(crate) fn up_sync<C>(conn: &mut C, known: &'static [Migration], theirs: bool) -> Result<(), MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    let (mut waits, mut deadlocks) = (indexes::Waits::default(), 0);
    loop {
        match step_sync(conn, known, theirs)? {
            Step::Applied(_) => {}
            Step::First(index, State::InProgress) => std::thread::sleep(waits.pause(&index)),
            Step::First(index, _) => indexes::create_sync(conn, &index, &mut deadlocks)?,
            Step::NoneMissing => return Ok(()),
        }
    }
}

fn step_sync<C>(conn: &mut C, known: &'static [Migration], theirs: bool) -> Result<Step, MigrateError>
where
    C: diesel::connection::LoadConnection<Backend = Pg>,
{
    conn.transaction(|conn| {
        locks::begin_sync(conn, theirs)?;
        let Some(migration) = missing(known, &applied_sync(conn)?)?.into_iter().next() else {
            return Ok(Step::NoneMissing);
        };
        if migration.version == 1 {
            let place: Place = diesel::RunQueryDsl::get_result(sql_query(PLACE), conn)?;
            place.check()?;
        }
        for index in indexes::of(migration) {
            let mut state = indexes::look_sync(conn, &index)?;
            if state == State::Invalid && !theirs {
                locks::lock_tables_sync(conn, migration)?;
                state = indexes::look_sync(conn, &index)?;
            }
            if state == State::Invalid {
                indexes::drop_sync(conn, &index)?;
            }
            if state != State::Ready && !theirs {
                return Ok(Step::First(index, state));
            }
        }
        if !theirs {
            locks::lock_tables_sync(conn, migration)?;
        }
        conn.batch_execute(migration.up).map_err(|source| failed(migration, source))?;
        Ok(Step::Applied(migration.version))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
