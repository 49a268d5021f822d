//! [`EnqueueConnection`] for PostgreSQL: the application's own connection, async here and sync in `sync`.

mod sync;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::AsyncConnection;
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob, merged};
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::insert_chunk::insert_chunk;
use super::migrate;
use super::queries::act::{self, ActQuery};
use super::queries::enqueue::{CHUNK, EnqueueQuery};
use super::queries::finish::FinishQuery;
use super::queries::finish_variants::LimitedQuery;
use super::queries::output::{OutputRow, one_output};
use crate::connection_future::BoxConnectionFuture;
use crate::enqueue_connection::{EnqueueConnection, PgAsync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::job_change::{ChangeError, JobChange};
use crate::migrations::POSTGRES;
use crate::stored_output::{OutputError, read_output};

/// The answer for an inserted row.
pub(super) fn inserted(id: i64) -> Enqueued {
    Enqueued::new(JobId(id))
}

pub(super) type Inserted = (i64, Option<bool>);

/// Inserts all jobs. Several chunks get their own transaction, or a savepoint in the caller's transaction.
pub(crate) fn insert_many<C>(
    conn: &mut C,
    jobs: Vec<NewJob>,
) -> BoxConnectionFuture<'_, Result<Vec<Enqueued>, EnqueueError>>
where
    C: AsyncConnection<Backend = Pg>,
{
    Box::pin(async move {
        if jobs.iter().any(|job| job.unique.is_some()) {
            let merged = merged(jobs)?;
            let enqueued = insert_all(conn, &merged.jobs).await?;
            return Ok(merged.answers(&enqueued));
        }
        insert_all(conn, &jobs).await
    })
}

async fn insert_all<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: AsyncConnection<Backend = Pg>,
{
    match jobs.len() {
        0 => Ok(Vec::new()),
        1..=CHUNK => insert_chunks(conn, jobs).await,
        _ => conn.transaction(async move |conn| insert_chunks(conn, jobs).await).await,
    }
}

fn is_in_transaction<C: AsyncConnection<Backend = Pg>>(conn: &mut C) -> bool {
    use diesel_async::TransactionManager as _;
    let status = C::TransactionManager::transaction_manager_status_mut(conn);
    status.transaction_depth().is_ok_and(|depth| depth.is_some())
}

async fn insert_chunks<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
where
    C: AsyncConnection<Backend = Pg>,
{
    use diesel_async::RunQueryDsl;
    let mut enqueued = Vec::with_capacity(jobs.len());
    for chunk in jobs.chunks(CHUNK) {
        enqueued.extend(insert_chunk!(conn, chunk, [.await]));
    }
    Ok(enqueued)
}

impl<C> EnqueueConnection<PgAsync> for C
where
    C: AsyncConnection<Backend = Pg>,
    C::TransactionManager: diesel_async::TransactionManager<C>,
{
    type Output<'c, T, E>
        = BoxConnectionFuture<'c, Result<T, E>>
    where
        C: 'c,
        T: Send + 'static,
        E: Send + 'static;

    fn insert_one(
        &mut self,
        job: Result<NewJob, InvalidJob>,
    ) -> BoxConnectionFuture<'_, Result<Enqueued, EnqueueError>> {
        Box::pin(
            async move {
                let job = job?;
                if job.traceparent.is_some() || job.needs_more() {
                    let ids = insert_chunks(self, &[job]).await?;
                    return Ok(*ids.first().ok_or(diesel::result::Error::NotFound)?);
                }
                // `get_result` would return the first row. A server that shuts down may send that row and then not
                // commit.
                let rows: Vec<Inserted> = diesel_async::RunQueryDsl::load(EnqueueQuery::new(&job), self).await?;
                let (id, _) = rows.first().ok_or(diesel::result::Error::NotFound)?;
                Ok(Enqueued::new(JobId(*id)))
            }
            .in_current_span(),
        )
    }

    fn insert_all(
        &mut self,
        jobs: Result<Vec<NewJob>, InvalidJob>,
    ) -> BoxConnectionFuture<'_, Result<Vec<Enqueued>, EnqueueError>> {
        Box::pin(async move { insert_many(self, jobs?).await }.in_current_span())
    }

    fn change(
        &mut self,
        change: Result<JobChange, ChangeError>,
    ) -> BoxConnectionFuture<'_, Result<usize, ChangeError>> {
        Box::pin(
            async move {
                let rows: Vec<i32> = diesel_async::RunQueryDsl::load(ActQuery::new(change?), self).await?;
                Ok(act::changed(&rows))
            }
            .in_current_span(),
        )
    }

    fn output<T>(&mut self, id: JobId) -> BoxConnectionFuture<'_, Result<Option<T>, OutputError>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        Box::pin(async move {
            let row: Option<OutputRow> = diesel_async::RunQueryDsl::first(one_output(id), self).await.optional()?;
            read_output(id, row.map(OutputRow::into_columns))
        })
    }
}

impl<C> TransactionConnection<PgAsync> for C
where
    C: AsyncConnection<Backend = Pg>,
    C::TransactionManager: diesel_async::TransactionManager<C>,
{
    fn complete(&mut self, ctx: &JobContext) -> BoxConnectionFuture<'_, Result<(), CompleteError>> {
        let ctx = ctx.clone();
        Box::pin(async move {
            if !is_in_transaction::<C>(self) {
                return Err(CompleteError::NoTransaction);
            }
            let finish = [ctx.completion()];
            let query = FinishQuery::new(&finish);
            let moved: Vec<i64> = match ctx.claimed().flags.gives_back() {
                true => diesel_async::RunQueryDsl::get_result(LimitedQuery(query), self).await?,
                false => diesel_async::RunQueryDsl::get_result(query, self).await?,
            };
            if moved.is_empty() {
                return Err(CompleteError::LeaseLost(ctx.lease()));
            }
            ctx.mark_completed_in();
            Ok(())
        })
    }

    fn migrate(&mut self) -> BoxConnectionFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            let theirs = is_in_transaction(self);
            migrate::up(self, POSTGRES, theirs).await.map(|_| ())
        })
    }
}
