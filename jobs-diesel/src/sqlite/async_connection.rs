//! diesel-async's connections to SQLite, plain or pooled.

use diesel::connection::TransactionManagerStatus;
use diesel::sqlite::Sqlite;
use diesel_async::{AsyncConnection, RunQueryDsl, TransactionManager};
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob, merged};
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use crate::connection_future::BoxConnectionFuture;
use crate::enqueue_connection::{EnqueueConnection, SqliteAsync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::job_change::{ChangeError, JobChange};
use crate::ledger::Applied;
use crate::migrations::Migration;
use crate::sqlite::queries::change::{self, Found};
use crate::sqlite::queries::complete_in::{self, Row};
use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::ledger;
use crate::sqlite::queries::output::one_output;
use crate::sqlite::queries::unique::{self, Decision, Holder};
use crate::sqlite::{hint, migrate};
use crate::stored_output::{Columns, OutputError, read_output};

impl<C: AsyncConnection<Backend = Sqlite>> EnqueueConnection<SqliteAsync> for C {
    type Output<'c, T, E>
        = BoxConnectionFuture<'c, Result<T, E>>
    where
        Self: 'c,
        T: Send + 'static,
        E: Send + 'static;

    fn insert_one(
        &mut self,
        job: Result<NewJob, InvalidJob>,
    ) -> BoxConnectionFuture<'_, Result<Enqueued, EnqueueError>> {
        Box::pin(
            async move {
                let job = job?;
                if job.unique.is_some() {
                    let enqueued = self.transaction(async |conn| insert_unique(conn, &job).await).await?;
                    hint::enqueued();
                    return Ok(enqueued);
                }
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
    ) -> BoxConnectionFuture<'_, Result<Vec<Enqueued>, EnqueueError>> {
        Box::pin(
            async move {
                let jobs = jobs?;
                let merged = merged(jobs)?;
                let enqueued = self.transaction(async |conn| insert_all(conn, &merged.jobs).await).await?;
                hint::enqueued();
                Ok(merged.answers(&enqueued))
            }
            .in_current_span(),
        )
    }

    fn change(
        &mut self,
        change: Result<JobChange, ChangeError>,
    ) -> BoxConnectionFuture<'_, Result<usize, ChangeError>> {
        Box::pin(
            async move {
                let change = change?;
                let changed = self.transaction(async |conn| change_jobs(conn, &change).await).await?;
                hint::enqueued();
                Ok(changed)
            }
            .in_current_span(),
        )
    }

    fn output<T>(&mut self, id: JobId) -> BoxConnectionFuture<'_, Result<Option<T>, OutputError>>
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
    fn complete(&mut self, ctx: &JobContext) -> BoxConnectionFuture<'_, Result<(), CompleteError>> {
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

    fn migrate(&mut self) -> BoxConnectionFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            while self.transaction(async |conn| step(conn).await).await?.is_some() {}
            Ok(())
        })
    }
}

/// Inserts all of these jobs, which are [merged]. The caller's transaction is open.
pub(super) async fn insert_all<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: AsyncConnection<Backend = Sqlite>,
{
    // The jobs without a key come first.
    let (plain, unique) = jobs.split_at(jobs.partition_point(|job| job.unique.is_none()));
    let mut enqueued = Vec::with_capacity(jobs.len());
    for insert in Insert::all(plain) {
        enqueued.extend(Insert::in_order(insert.load(conn).await?));
    }
    for job in unique {
        enqueued.push(insert_unique(conn, job).await?);
    }
    Ok(enqueued)
}

async fn change_jobs<C>(conn: &mut C, change: &JobChange) -> Result<usize, ChangeError>
where
    C: AsyncConnection<Backend = Sqlite>,
{
    let found: Vec<Found> = change::begin(change).load(conn).await?;
    let [found] = found.as_slice() else { return Ok(0) };
    for statement in change::statements(change.verb, &found.ids) {
        conn.execute_returning_count(statement).await?;
    }
    Ok(found.number())
}

async fn insert_unique<C>(conn: &mut C, job: &NewJob) -> Result<Enqueued, EnqueueError>
where
    C: AsyncConnection<Backend = Sqlite>,
{
    let Some(key) = &job.unique else { return Err(diesel::result::Error::NotFound.into()) };
    let reserved = conn.execute_returning_count(unique::reserve(key)).await?;
    let holder: Vec<Holder> = if reserved == 0 { unique::holder(key).load(conn).await? } else { Vec::new() };
    match unique::decide(key, holder.as_slice().first()) {
        Decision::Insert => {
            let ids: Vec<i64> = Insert::one(job).load(conn).await?;
            let id = ids.into_iter().next().map(JobId).ok_or(diesel::result::Error::NotFound)?;
            conn.execute_returning_count(unique::give(key, id)).await?;
            Ok(Enqueued::new(id))
        }
        Decision::Keep(id) => Ok(Enqueued::existing(id)),
        Decision::Fail(id) => Err(EnqueueError::exists(job, id)),
        Decision::Replace(id) => {
            conn.execute_returning_count(unique::replace(id, job, key.rule.on_conflict)).await?;
            Ok(Enqueued::replaced(id))
        }
    }
}

async fn step<C>(conn: &mut C) -> Result<Option<&'static Migration>, MigrateError>
where
    C: AsyncConnection<Backend = Sqlite>,
{
    conn.batch_execute(ledger::LOCK).await?;
    let has_ledger = ledger::exists().get_result::<i64>(conn).await? > 0;
    let applied: Vec<Applied> = if has_ledger { ledger::rows().load(conn).await? } else { Vec::new() };
    let next = migrate::next(has_ledger, &applied)?;
    if let Some(migration) = next {
        conn.batch_execute(migration.up).await.map_err(|source| migrate::failed(migration, source))?;
    }
    Ok(next)
}
