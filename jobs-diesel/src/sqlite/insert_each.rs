//! The SQLite part of [`InsertEach`].

use diesel::connection::LoadConnection;
use diesel::query_builder::QueryFragment;
use diesel::query_dsl::methods::ExecuteDsl;
use diesel::sqlite::Sqlite;
use diesel_async::AsyncConnection;
use diesel_jobs_core::__private::{JobsOfRows, sent_each};
use diesel_jobs_core::{InvalidJob, merged};
use tracing::Instrument as _;

use super::async_connection::insert_all;
use super::hint;
use super::queries::enqueue_each::EnqueueEachQuery;
use super::queries::read_rows::{CREATE, EMPTY, KeepRows, NextRows, NumberedArgs};
use super::sync_connection::insert_jobs;
use crate::connection_future::BoxConnectionFuture;
use crate::enqueue_connection::{SqliteAsync, SqliteSync};
use crate::enqueue_each::{InsertEach, Rows, count_new};
use crate::error::EnqueueError;

impl<C, Q> InsertEach<SqliteSync, Q> for C
where
    C: LoadConnection<Backend = Sqlite>,
    Q: QueryFragment<Sqlite>,
{
    fn insert_each<'c>(&'c mut self, jobs: Result<JobsOfRows, InvalidJob>, rows: Rows<Q>) -> Result<usize, EnqueueError>
    where
        Q: 'c,
    {
        let jobs = jobs?;
        let inserted = match jobs.need_more() {
            true => self.transaction(|conn| insert_kept(conn, &jobs, rows))?,
            false => ExecuteDsl::execute(EnqueueEachQuery::new(jobs.common(), rows), self)?,
        };
        sent_each(&jobs, inserted);
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
        jobs: Result<JobsOfRows, InvalidJob>,
        rows: Rows<Q>,
    ) -> BoxConnectionFuture<'c, Result<usize, EnqueueError>>
    where
        Q: 'c,
    {
        Box::pin(
            async move {
                let jobs = jobs?;
                let of_rows = &jobs;
                let inserted = match jobs.need_more() {
                    true => self.transaction(async move |conn| insert_kept_async(conn, of_rows, rows).await).await?,
                    false => {
                        let query = EnqueueEachQuery::new(jobs.common(), rows);
                        diesel_async::RunQueryDsl::execute(query, self).await?
                    }
                };
                sent_each(&jobs, inserted);
                hint::enqueued();
                Ok(inserted)
            }
            .in_current_span(),
        )
    }
}

/// Keeps the arguments in a temporary table, reads a few at a time, and inserts their jobs. The caller's transaction is
/// open.
fn insert_kept<C, Q>(conn: &mut C, jobs: &JobsOfRows, rows: Rows<Q>) -> Result<usize, EnqueueError>
where
    C: LoadConnection<Backend = Sqlite>,
    Q: QueryFragment<Sqlite>,
{
    conn.batch_execute(CREATE)?;
    ExecuteDsl::execute(KeepRows::new(rows), conn)?;
    let (mut inserted, mut last) = (0, 0);
    loop {
        let next: Vec<NumberedArgs> = diesel::RunQueryDsl::load(NextRows(last), conn)?;
        let Some((number, _)) = next.last() else { break };
        last = *number;
        let next = jobs.with_args(next.into_iter().map(|(_, args)| args).collect())?;
        inserted += count_new(&insert_jobs(conn, next)?);
    }
    conn.batch_execute(EMPTY)?;
    Ok(inserted)
}

async fn insert_kept_async<C, Q>(conn: &mut C, jobs: &JobsOfRows, rows: Rows<Q>) -> Result<usize, EnqueueError>
where
    C: AsyncConnection<Backend = Sqlite>,
    Q: QueryFragment<Sqlite> + Send,
{
    use diesel_async::RunQueryDsl;
    conn.batch_execute(CREATE).await?;
    RunQueryDsl::execute(KeepRows::new(rows), conn).await?;
    let (mut inserted, mut last) = (0, 0);
    loop {
        let next: Vec<NumberedArgs> = RunQueryDsl::load(NextRows(last), conn).await?;
        let Some((number, _)) = next.last() else { break };
        last = *number;
        let next = merged(jobs.with_args(next.into_iter().map(|(_, args)| args).collect())?)?;
        inserted += count_new(&insert_all(conn, &next.jobs).await?);
    }
    conn.batch_execute(EMPTY).await?;
    Ok(inserted)
}
