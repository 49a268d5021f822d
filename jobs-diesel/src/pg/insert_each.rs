//! The PostgreSQL part of [`InsertEach`].

use diesel::pg::Pg;
use diesel::query_builder::QueryFragment;
use diesel_async::{AsyncConnection, TransactionManager};
use diesel_jobs_core::__private::sent_each;
use diesel_jobs_core::{InvalidJob, NewJob};
use futures_util::future::BoxFuture;
use tracing::Instrument as _;

use super::queries::enqueue_each::EnqueueEachQuery;
use crate::enqueue_connection::PgAsync;
use crate::enqueue_each::{InsertEach, Rows};
use crate::error::EnqueueError;

impl<C, Q> InsertEach<PgAsync, Q> for C
where
    C: AsyncConnection<Backend = Pg>,
    C::TransactionManager: TransactionManager<C>,
    Q: QueryFragment<Pg> + Send,
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
                Ok(inserted)
            }
            .in_current_span(),
        )
    }
}

#[cfg(feature = "postgres-sync")]
mod sync {
    use diesel::connection::LoadConnection;
    use diesel::query_dsl::methods::ExecuteDsl;

    use super::*;
    use crate::enqueue_connection::PgSync;

    impl<C, Q> InsertEach<PgSync, Q> for C
    where
        C: LoadConnection<Backend = Pg>,
        Q: QueryFragment<Pg>,
    {
        fn insert_each<'c>(&'c mut self, job: Result<NewJob, InvalidJob>, rows: Rows<Q>) -> Result<usize, EnqueueError>
        where
            Q: 'c,
        {
            let job = job?;
            let inserted = ExecuteDsl::execute(EnqueueEachQuery::new(&job, rows), self)?;
            sent_each(&job, inserted);
            Ok(inserted)
        }
    }
}
