//! [`EnqueueConnection`] for a shared reference to a connection. diesel-async sends the statements of several such references without waiting
//! for the answers in between.

use diesel::{OptionalExtension as _, QueryResult};
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs_core::{Enqueued, InvalidJob, JobId, NewJob};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::enqueue_connection::{Inserted, inserted};
use super::queries::enqueue::{EnqueueManyQuery, EnqueueQuery};
use super::queries::hold::{self, HoldQuery};
use super::queries::output::{OutputRow, one_output};
use crate::enqueue_connection::{EnqueueConnection, PgPipelined};
use crate::error::EnqueueError;
use crate::stored_output::{OutputError, read_output};

impl EnqueueConnection<PgPipelined> for &AsyncPgConnection {
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
                if job.traceparent.is_some() || job.limit.is_some() {
                    let ids = insert(self, &[job]).await?;
                    let id = ids.into_iter().next().ok_or(diesel::result::Error::NotFound)?;
                    return Ok(Enqueued::new(JobId(id)));
                }
                let rows: Vec<Inserted> = EnqueueQuery::new(&job).load(self).await?;
                let (id, _) = rows.into_iter().next().ok_or(diesel::result::Error::NotFound)?;
                Ok(Enqueued::new(JobId(id)))
            }
            .in_current_span(),
        )
    }

    /// It is one statement for any number of jobs: a shared reference cannot begin a transaction around several.
    fn insert_all(
        &mut self,
        jobs: Result<Vec<NewJob>, InvalidJob>,
    ) -> BoxFuture<'_, Result<Vec<Enqueued>, EnqueueError>> {
        Box::pin(
            async move {
                let jobs = jobs?;
                if jobs.is_empty() {
                    return Ok(Vec::new());
                }
                let ids = insert(self, &jobs).await?;
                Ok(ids.into_iter().map(inserted).collect())
            }
            .in_current_span(),
        )
    }

    fn output<T>(&mut self, id: JobId) -> BoxFuture<'_, Result<Option<T>, OutputError>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        Box::pin(async move {
            let row: Option<OutputRow> = one_output(id).first(self).await.optional()?;
            read_output(id, row.map(OutputRow::into_columns))
        })
    }
}

async fn insert(conn: &mut &AsyncPgConnection, jobs: &[NewJob]) -> QueryResult<Vec<i64>> {
    let Some(hold) = HoldQuery::new(jobs) else { return EnqueueManyQuery::new(jobs).load(conn).await };
    let rows: Vec<(bool, i64)> = hold.load(conn).await?;
    Ok(hold::in_order(jobs, rows))
}
