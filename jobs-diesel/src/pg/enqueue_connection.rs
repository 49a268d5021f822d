//! [`EnqueueConnection`] for PostgreSQL: the application's own connection, sync or async.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::AsyncConnection;
use diesel_jobs_core::{Enqueued, InvalidJob, JobContext, JobId, NewJob, merged};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::migrate;
use super::queries::enqueue::{CHUNK, EnqueueManyQuery, EnqueueQuery};
use super::queries::enqueue_alike::EnqueueAlikeQuery;
use super::queries::finish::{FinishQuery, LimitedQuery};
use super::queries::hold::{self, HoldOneQuery, HoldQuery};
use super::queries::output::{OutputRow, one_output};
use super::queries::take::{self, TakeOneQuery, TakeQuery};
use crate::enqueue_connection::{EnqueueConnection, PgAsync, TransactionConnection};
use crate::error::{CompleteError, EnqueueError, MigrateError};
use crate::stored_output::{OutputError, read_output};

/// The answer for an inserted row.
pub(super) fn inserted(id: i64) -> Enqueued {
    Enqueued::new(JobId(id))
}

pub(super) type Inserted = (i64, Option<bool>);

/// Inserts all jobs. Several chunks get their own transaction, or a savepoint in the caller's transaction.
pub(crate) fn insert_many<C>(conn: &mut C, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<Enqueued>, EnqueueError>>
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
    let mut ids = Vec::with_capacity(jobs.len());
    for chunk in jobs.chunks(CHUNK) {
        if let Some(take) = TakeOneQuery::new(chunk) {
            ids.extend(take::answers(chunk, RunQueryDsl::load(take, conn).await?)?);
            continue;
        }
        if let Some(take) = TakeQuery::new(chunk) {
            let rows: Vec<(i64, i64, i16)> = RunQueryDsl::load(take, conn).await?;
            ids.extend(take::answers(chunk, rows)?);
            continue;
        }
        if let Some(hold) = HoldOneQuery::new(chunk) {
            let rows: Vec<(i64, bool)> = RunQueryDsl::load(hold, conn).await?;
            ids.extend(rows.into_iter().map(|(id, _)| inserted(id)));
            continue;
        }
        if let Some(hold) = HoldQuery::new(chunk) {
            let rows: Vec<(bool, i64)> = RunQueryDsl::load(hold, conn).await?;
            ids.extend(hold::in_order(chunk, rows).into_iter().map(inserted));
            continue;
        }
        let rows: Vec<i64> = match EnqueueAlikeQuery::new(chunk) {
            Some(alike) => RunQueryDsl::load(alike, conn).await?,
            None => RunQueryDsl::load(EnqueueManyQuery::new(chunk), conn).await?,
        };
        ids.extend(rows.into_iter().map(inserted));
    }
    Ok(ids)
}

impl<C> EnqueueConnection<PgAsync> for C
where
    C: AsyncConnection<Backend = Pg>,
    C::TransactionManager: diesel_async::TransactionManager<C>,
{
    type Output<'c, T, E>
        = BoxFuture<'c, Result<T, E>>
    where
        C: 'c,
        T: Send + 'static,
        E: Send + 'static;

    fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> BoxFuture<'_, Result<Enqueued, EnqueueError>> {
        Box::pin(
            async move {
                let job = job?;
                if job.traceparent.is_some() || job.limit.is_some() || job.unique.is_some() {
                    let ids = insert_chunks(self, &[job]).await?;
                    return Ok(*ids.first().ok_or(diesel::result::Error::NotFound)?);
                }
                // `get_result` would return the first row. A server that shuts down may send that row and then not commit.
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
    ) -> BoxFuture<'_, Result<Vec<Enqueued>, EnqueueError>> {
        Box::pin(async move { insert_many(self, jobs?).await }.in_current_span())
    }

    fn output<T>(&mut self, id: JobId) -> BoxFuture<'_, Result<Option<T>, OutputError>>
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
    fn complete(&mut self, ctx: &JobContext) -> BoxFuture<'_, Result<(), CompleteError>> {
        let ctx = ctx.clone();
        Box::pin(async move {
            if !is_in_transaction::<C>(self) {
                return Err(CompleteError::NoTransaction);
            }
            let finish = [ctx.completion()];
            let query = FinishQuery::new(&finish);
            let moved: Vec<i64> = match ctx.lease().gives_back() {
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

    fn migrate(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move { migrate::up(self).await.map(|_| ()) })
    }
}

#[cfg(feature = "postgres-sync")]
mod sync {
    use diesel::connection::{LoadConnection, TransactionManager as _};

    use super::*;
    use crate::enqueue_connection::PgSync;

    fn insert_chunks<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
    where
        C: LoadConnection<Backend = Pg>,
    {
        let mut ids = Vec::with_capacity(jobs.len());
        for chunk in jobs.chunks(CHUNK) {
            if let Some(take) = TakeOneQuery::new(chunk) {
                ids.extend(take::answers(chunk, take.load(conn)?)?);
                continue;
            }
            if let Some(take) = TakeQuery::new(chunk) {
                let rows: Vec<(i64, i64, i16)> = take.load(conn)?;
                ids.extend(take::answers(chunk, rows)?);
                continue;
            }
            if let Some(hold) = HoldOneQuery::new(chunk) {
                let rows: Vec<(i64, bool)> = hold.load(conn)?;
                ids.extend(rows.into_iter().map(|(id, _)| inserted(id)));
                continue;
            }
            if let Some(hold) = HoldQuery::new(chunk) {
                let rows: Vec<(bool, i64)> = hold.load(conn)?;
                ids.extend(hold::in_order(chunk, rows).into_iter().map(inserted));
                continue;
            }
            let rows: Vec<i64> = match EnqueueAlikeQuery::new(chunk) {
                Some(alike) => alike.load(conn)?,
                None => EnqueueManyQuery::new(chunk).load(conn)?,
            };
            ids.extend(rows.into_iter().map(inserted));
        }
        Ok(ids)
    }

    fn insert_all<C>(conn: &mut C, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError>
    where
        C: LoadConnection<Backend = Pg>,
    {
        match jobs.len() {
            0 => Ok(Vec::new()),
            1..=CHUNK => insert_chunks(conn, jobs),
            _ => conn.transaction(|conn| insert_chunks(conn, jobs)),
        }
    }

    fn is_in_transaction<C: LoadConnection<Backend = Pg>>(conn: &mut C) -> bool {
        let status = C::TransactionManager::transaction_manager_status_mut(conn);
        status.transaction_depth().is_ok_and(|depth| depth.is_some())
    }

    impl<C> EnqueueConnection<PgSync> for C
    where
        C: LoadConnection<Backend = Pg>,
    {
        type Output<'c, T, E>
            = Result<T, E>
        where
            C: 'c,
            T: Send + 'static,
            E: Send + 'static;

        fn insert_one(&mut self, job: Result<NewJob, InvalidJob>) -> Result<Enqueued, EnqueueError> {
            let job = job?;
            if job.traceparent.is_some() || job.limit.is_some() || job.unique.is_some() {
                let ids = insert_chunks(self, &[job])?;
                return Ok(*ids.first().ok_or(diesel::result::Error::NotFound)?);
            }
            let (id, _): Inserted = EnqueueQuery::new(&job).get_result(self)?;
            Ok(Enqueued::new(JobId(id)))
        }

        fn insert_all(&mut self, jobs: Result<Vec<NewJob>, InvalidJob>) -> Result<Vec<Enqueued>, EnqueueError> {
            let jobs = jobs?;
            if jobs.iter().any(|job| job.unique.is_some()) {
                let merged = merged(jobs)?;
                let enqueued = insert_all(self, &merged.jobs)?;
                return Ok(merged.answers(&enqueued));
            }
            insert_all(self, &jobs)
        }

        fn output<T>(&mut self, id: JobId) -> Result<Option<T>, OutputError>
        where
            T: DeserializeOwned + Send + 'static,
        {
            let row: Option<OutputRow> = one_output(id).first(self).optional()?;
            read_output(id, row.map(OutputRow::into_columns))
        }
    }

    impl<C> TransactionConnection<PgSync> for C
    where
        C: LoadConnection<Backend = Pg>,
    {
        fn complete(&mut self, ctx: &JobContext) -> Result<(), CompleteError> {
            if !is_in_transaction(self) {
                return Err(CompleteError::NoTransaction);
            }
            let finish = [ctx.completion()];
            let query = FinishQuery::new(&finish);
            let moved: Vec<i64> = match ctx.lease().gives_back() {
                true => LimitedQuery(query).get_result(self)?,
                false => query.get_result(self)?,
            };
            if moved.is_empty() {
                return Err(CompleteError::LeaseLost(ctx.lease()));
            }
            ctx.mark_completed_in();
            Ok(())
        }

        fn migrate(&mut self) -> Result<(), MigrateError> {
            migrate::up_sync(self)
        }
    }
}
