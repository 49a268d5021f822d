//! [`EnqueueConnection`] for a shared reference to a connection. diesel-async sends the statements of several such
//! references without waiting for the answers in between.

use diesel::OptionalExtension as _;
use diesel_async::{AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs_core::{Enqueued, InvalidJob, JobId, NewJob, merged};
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::enqueue_connection::{Inserted, inserted};
use super::queries::act::{self, ActQuery};
use super::queries::enqueue::EnqueueQuery;
use super::queries::enqueue_held::{self, EnqueueHeldQuery};
use super::queries::enqueue_many::EnqueueManyQuery;
use super::queries::enqueue_unique::{self, EnqueueUniqueQuery};
use super::queries::enqueue_unique_one::EnqueueUniqueFreeQuery;
use super::queries::output::{OutputRow, one_output};
use crate::connection_future::BoxConnectionFuture;
use crate::enqueue_connection::{EnqueueConnection, PgPipelined};
use crate::error::EnqueueError;
use crate::job_change::{ChangeError, JobChange};
use crate::stored_output::{OutputError, read_output};

impl EnqueueConnection<PgPipelined> for &AsyncPgConnection {
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
                if job.traceparent.is_some() || job.needs_more() {
                    let enqueued = insert(self, &[job]).await?;
                    return Ok(enqueued.into_iter().next().ok_or(diesel::result::Error::NotFound)?);
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
    ) -> BoxConnectionFuture<'_, Result<Vec<Enqueued>, EnqueueError>> {
        Box::pin(
            async move {
                let jobs = jobs?;
                if jobs.is_empty() {
                    return Ok(Vec::new());
                }
                let merged = merged(jobs)?;
                let enqueued = insert(self, &merged.jobs).await?;
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
                let rows: Vec<i32> = ActQuery::new(change?).load(self).await?;
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
            let row: Option<OutputRow> = one_output(id).first(self).await.optional()?;
            read_output(id, row.map(OutputRow::into_columns))
        })
    }
}

async fn insert(conn: &mut &AsyncPgConnection, jobs: &[NewJob]) -> Result<Vec<Enqueued>, EnqueueError> {
    if let Some(unique) = EnqueueUniqueFreeQuery::new(jobs) {
        return enqueue_unique::answers(jobs, unique.load(conn).await?);
    }
    if let Some(unique) = EnqueueUniqueQuery::new(jobs) {
        return enqueue_unique::answers(jobs, unique.load(conn).await?);
    }
    let ids: Vec<i64> = match EnqueueHeldQuery::new(jobs) {
        None => EnqueueManyQuery::new(jobs).load(conn).await?,
        Some(held) => {
            let rows: Vec<(bool, i64)> = held.load(conn).await?;
            enqueue_held::in_order(jobs, rows)
        }
    };
    Ok(ids.into_iter().map(inserted).collect())
}
