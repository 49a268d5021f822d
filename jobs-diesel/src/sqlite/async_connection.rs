//! diesel-async's connections to SQLite, plain or pooled.

use diesel::connection::TransactionManagerStatus;
use diesel::sqlite::Sqlite;
use diesel_async::{AsyncConnection, RunQueryDsl, TransactionManager};
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use crate::enqueue_connection::{EnqueueConnection, SqliteAsync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::ledger::Applied;
use crate::migrations::Migration;
use crate::sqlite::queries::complete_in::{self, Row};
use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::ledger;
use crate::sqlite::queries::output::one_output;
use crate::sqlite::{hint, migrate};
use crate::stored_output::{Columns, OutputError, read_output};

impl<C: AsyncConnection<Backend = Sqlite>> EnqueueConnection<SqliteAsync> for C {
    type Output<'c, T, E>
        = BoxFuture<'c, Result<T, E>>
    where
        Self: 'c,
        T: Send + 'static,
        E: Send + 'static;

    fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> BoxFuture<'_, Result<Enqueued, EnqueueError>> {
        Box::pin(
            async move {
                let job = job?;
                // `load` reads to the end of the statement. Only there does the statement commit.
                let ids: Vec<i64> = Insert::one(&job).load(self).await?;
                hint::enqueued();
                ids.into_iter()
                    .next()
                    .map(|id| Enqueued::new(JobId(id)))
                    .ok_or_else(|| diesel::result::Error::NotFound.into())
            }
            .in_current_span(),
        )
    }

    fn insert_all(
        &mut self,
        jobs: Result<Vec<NewJob>, InvalidJob>,
    ) -> BoxFuture<'_, Result<Vec<Enqueued>, EnqueueError>> {
        Box::pin(
            async move {
                let jobs = jobs?;
                let ids = self.transaction(async |conn| insert_all(conn, &jobs).await).await?;
                hint::enqueued();
                Ok(ids)
            }
            .in_current_span(),
        )
    }

    fn output<T>(&mut self, id: JobId) -> BoxFuture<'_, Result<Option<T>, OutputError>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        Box::pin(async move {
            let row: Vec<Columns> = one_output(id).load(self).await?;
            read_output(id, row.into_iter().next())
        })
    }
}

impl<C: AsyncConnection<Backend = Sqlite>> TransactionConnection<SqliteAsync> for C {
    fn complete(&mut self, ctx: &JobContext) -> BoxFuture<'_, Result<(), CompleteError>> {
        let ctx = ctx.clone();
        Box::pin(async move {
            let TransactionManagerStatus::Valid(status) = C::TransactionManager::transaction_manager_status_mut(self)
            else {
                return Err(diesel::result::Error::BrokenTransactionManager.into());
            };
            if status.transaction_depth().is_none() {
                return Err(CompleteError::NoTransaction);
            }
            let lease = ctx.lease();
            let row = Row::after(&ctx.completion().transition);
            let moved = match row {
                Row::Stays(keep) => self.execute_returning_count(complete_in::complete(lease, keep)).await?,
                Row::Goes => self.execute_returning_count(complete_in::delete(lease)).await?,
            };
            if moved == 0 {
                return Err(CompleteError::LeaseLost(lease));
            }
            if let Row::Goes = row {
                self.execute_returning_count(complete_in::forget(lease)).await?;
            }
            ctx.mark_completed_in();
            Ok(())
        })
    }

    fn migrate(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            while self.transaction(async |conn| step(conn).await).await?.is_some() {}
            Ok(())
        })
    }
}

async fn insert_all<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: AsyncConnection<Backend = Sqlite>,
{
    let mut ids = Vec::with_capacity(jobs.len());
    for insert in Insert::all(jobs) {
        ids.extend(Insert::in_order(insert.load(conn).await?));
    }
    Ok(ids)
}

async fn step<C>(conn: &mut C) -> Result<Option<&'static Migration>, MigrateError>
where
    C: AsyncConnection<Backend = Sqlite>,
{
    conn.batch_execute(ledger::LOCK).await?;
    let applied: Vec<Applied> = match ledger::exists().get_result::<i64>(conn).await? {
        0 => Vec::new(),
        _ => ledger::rows().load(conn).await?,
    };
    let next = migrate::next(&applied)?;
    if let Some(migration) = next {
        conn.batch_execute(migration.up).await.map_err(|source| migrate::failed(migration, source))?;
    }
    Ok(next)
}
