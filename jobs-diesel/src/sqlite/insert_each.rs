//! The SQLite part of [`InsertEach`].

use diesel::connection::LoadConnection;
use diesel::query_builder::QueryFragment;
use diesel::query_dsl::methods::ExecuteDsl;
use diesel::sqlite::Sqlite;
use diesel_async::AsyncConnection;
use diesel_jobs_core::__private::sent_each;
use diesel_jobs_core::{InvalidJob, NewJob};
use futures_util::future::BoxFuture;
use tracing::Instrument as _;

use super::hint;
use super::queries::enqueue_each::EnqueueEachQuery;
use crate::enqueue_connection::{SqliteAsync, SqliteSync};
use crate::enqueue_each::{InsertEach, Rows};
use crate::error::EnqueueError;

impl<C, Q> InsertEach<SqliteSync, Q> for C
where
    C: LoadConnection<Backend = Sqlite>,
    Q: QueryFragment<Sqlite>,
{
    fn insert_each<'c>(&'c mut self, job: Result<NewJob, InvalidJob>, rows: Rows<Q>) -> Result<usize, EnqueueError>
    where
        Q: 'c,
    {
        let job = job?;
        let inserted = ExecuteDsl::execute(EnqueueEachQuery::new(&job, rows), self)?;
        sent_each(&job, inserted);
        hint::enqueued();
        Ok(inserted)
    }
}

impl<C, Q> InsertEach<SqliteAsync, Q> for C
where
    C: AsyncConnection<Backend = Sqlite>,
    Q: QueryFragment<Sqlite> + Send,
{
    fn insert_each<'c>(
        &'c mut self,
        job: Result<NewJob, InvalidJob>,
        rows: Rows<Q>,
    ) -> BoxFuture<'c, Result<usize, EnqueueError>>
    where
        Q: 'c,
    {
        Box::pin(
            async move {
                let job = job?;
                let inserted = diesel_async::RunQueryDsl::execute(EnqueueEachQuery::new(&job, rows), self).await?;
                sent_each(&job, inserted);
                hint::enqueued();
                Ok(inserted)
            }
            .in_current_span(),
        )
    }
}
