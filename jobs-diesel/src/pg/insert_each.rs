//! The PostgreSQL part of [`InsertEach`].

use diesel::pg::Pg;
use diesel::query_builder::QueryFragment;
use diesel_async::{AsyncConnection, TransactionManager};
use diesel_jobs_core::__private::{JobsOfRows, sent_each};
use diesel_jobs_core::InvalidJob;
use tracing::Instrument as _;

use super::enqueue_connection::insert_many;
use super::queries::enqueue_each::EnqueueEachQuery;
use super::queries::read_rows::{CloseRows, FetchRows, ReadRows};
use crate::connection_future::BoxConnectionFuture;
use crate::enqueue_connection::PgAsync;
use crate::enqueue_each::{InsertEach, Rows, count_new};
use crate::error::EnqueueError;

impl<C, Q> InsertEach<PgAsync, Q> for C
where
    C: AsyncConnection<Backend = Pg>,
    C::TransactionManager: TransactionManager<C>,
    Q: QueryFragment<Pg> + Send,
{
    fn insert_each<'c>(
        &'c mut self,
        jobs: Result<JobsOfRows, InvalidJob>,
        rows: Rows<Q>,
    ) -> BoxConnectionFuture<'c, Result<usize, EnqueueError>>
    where
        Q: 'c,
    {
        Box::pin(
            async move {
                let jobs = jobs?;
                let inserted = match jobs.need_more() {
                    true => insert_read(self, &jobs, rows).await?,
                    false => {
                        let query = EnqueueEachQuery::new(jobs.common(), rows);
                        diesel_async::RunQueryDsl::execute(query, self).await?
                    }
                };
                sent_each(&jobs, inserted);
                Ok(inserted)
            }
            .in_current_span(),
        )
    }
}

/// Reads the arguments a few at a time, and inserts their jobs.
async fn insert_read<C, Q>(conn: &mut C, jobs: &JobsOfRows, rows: Rows<Q>) -> Result<usize, EnqueueError>
where
    C: AsyncConnection<Backend = Pg>,
    Q: QueryFragment<Pg> + Send,
{
    use diesel_async::RunQueryDsl;
    conn.transaction(async move |conn| {
        RunQueryDsl::execute(ReadRows::new(rows), conn).await?;
        let mut inserted = 0;
        loop {
            let args: Vec<String> = RunQueryDsl::load(FetchRows, conn).await?;
            if args.is_empty() {
                break;
            }
            inserted += count_new(&insert_many(conn, jobs.with_args(args)?).await?);
        }
        RunQueryDsl::execute(CloseRows, conn).await?;
        Ok(inserted)
    })
    .await
}

mod sync {
    use diesel::RunQueryDsl;
    use diesel::connection::LoadConnection;
    use diesel::query_dsl::methods::ExecuteDsl;

    use super::*;
    use crate::enqueue_connection::{EnqueueConnection, PgSync};

    impl<C, Q> InsertEach<PgSync, Q> for C
    where
        C: LoadConnection<Backend = Pg>,
        Q: QueryFragment<Pg>,
    {
        fn insert_each<'c>(
            &'c mut self,
            jobs: Result<JobsOfRows, InvalidJob>,
            rows: Rows<Q>,
        ) -> Result<usize, EnqueueError>
        where
            Q: 'c,
        {
            let jobs = jobs?;
            let inserted = match jobs.need_more() {
                true => insert_read(self, &jobs, rows)?,
                false => ExecuteDsl::execute(EnqueueEachQuery::new(jobs.common(), rows), self)?,
            };
            sent_each(&jobs, inserted);
            Ok(inserted)
        }
    }

    fn insert_read<C, Q>(conn: &mut C, jobs: &JobsOfRows, rows: Rows<Q>) -> Result<usize, EnqueueError>
    where
        C: LoadConnection<Backend = Pg>,
        Q: QueryFragment<Pg>,
    {
        conn.transaction(|conn| {
            ExecuteDsl::execute(ReadRows::new(rows), conn)?;
            let mut inserted = 0;
            loop {
                let args: Vec<String> = RunQueryDsl::load(FetchRows, conn)?;
                if args.is_empty() {
                    break;
                }
                inserted += count_new(&EnqueueConnection::<PgSync>::insert_all(conn, jobs.with_args(args))?);
            }
            ExecuteDsl::execute(CloseRows, conn)?;
            Ok(inserted)
        })
    }
}
