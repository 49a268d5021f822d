//! diesel-async's connections to PostgreSQL.

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls::{self, Expired};
use diesel_jobs_core::{
    BatchCall, ClaimedJob, Finish, Handled, Handler, JobContext, JobId, NewJob, ProgressReport, TransactionalBatch,
    WorkerId,
};
use futures_util::future::BoxFuture;

use super::blocked::found as found_blocked;
use super::{Among, Blocked, TestConnection, Waiting, batch, other_connection, rows, savepoint};
use crate::connection_future::BoxConnectionFuture;
use crate::error::storage_error;
use crate::pg::queries::blocked;
use crate::pg::queries::claim::ClaimedRow;
use crate::pg::queries::enqueue::EnqueueQuery;
use crate::pg::queries::expire::{self, StartByQuery};
use crate::pg::queries::finish::FinishQuery;
use crate::pg::queries::inspect::{JobRow, waiting};
use crate::pg::queries::progress::StoreProgressQuery;
use crate::pg::queries::start_for_test::StartForTestQuery;
use crate::pg::queries::store_outputs::StoreOutputsQuery;

#[async_trait]
impl TestConnection for AsyncPgConnection {
    type Answer<'c, T: Send + 'c> = BoxConnectionFuture<'c, T>;

    fn answer<'c, T: Send + 'c>(future: BoxFuture<'c, T>) -> BoxConnectionFuture<'c, T> {
        Box::pin(future)
    }

    fn provides(connection: TypeId) -> bool {
        connection == TypeId::of::<Self>()
    }

    async fn waiting(&mut self, among: Among) -> StorageResult<Waiting> {
        let jobs: Vec<JobRow> = RunQueryDsl::load(waiting!(among), self).await.map_err(storage_error)?;
        let clock = diesel::select(sql::<Timestamptz>("clock_timestamp()"));
        let now = RunQueryDsl::get_result(clock, self).await.map_err(storage_error)?;
        Ok(Waiting { jobs: jobs.into_iter().map(Into::into).collect(), now })
    }

    async fn start(&mut self, job: JobId, worker: WorkerId) -> StorageResult<Option<ClaimedJob>> {
        let started: Vec<ClaimedRow> =
            RunQueryDsl::load(StartForTestQuery::new(job, worker), self).await.map_err(storage_error)?;
        let mut started: Vec<ClaimedJob> = started.into_iter().map(|row| row.into_job(worker)).collect();
        if expire::any_expires(&started) {
            let times: Vec<(i64, DateTime<Utc>)> =
                RunQueryDsl::load(StartByQuery::new(&started), self).await.map_err(storage_error)?;
            expire::add_start_by(&mut started, &times);
        }
        Ok(started.pop())
    }

    async fn call(&mut self, handler: Handler, ctx: JobContext, limit: Duration) -> Result<Handled, Expired> {
        match handler {
            Handler::Async(handle) => calls::caught_within(limit, async move { handle(ctx).await }).await,
            Handler::Batch(handler) => match handler.call {
                BatchCall::Plain(handle) => calls::caught_within(limit, batch::plain(handle, ctx)).await,
                BatchCall::Transactional(TransactionalBatch::Async(handle)) => {
                    batch::asynchronous(self, handle, ctx, limit).await
                }
                BatchCall::Transactional(TransactionalBatch::Blocking(_)) => Ok(Err(other_connection())),
            },
            Handler::Blocking(handle) => calls::on_a_thread_async(handle, ctx, limit).await,
            Handler::AsyncTransactional(handle) => {
                savepoint::asynchronous(self, limit, |conn| Box::pin(async move { handle(conn, ctx).await })).await
            }
            Handler::BlockingTransactional(_) => Ok(Err(other_connection())),
            Handler::WithRows(handler) => {
                let loaded = rows::through_async(self, *handler, ctx.clone(), limit).await?;
                rows::call(loaded, ctx, limit).await
            }
        }
    }

    async fn blocked(&mut self) -> Blocked {
        // The connection may still wait for the statement of a handler that was given up.
        let found = Box::pin(RunQueryDsl::get_result(blocked::session(), self));
        let found = calls::within(savepoint::ROLLBACK_LIMIT, found).await;
        found.map_or(Blocked::Unknown, |found| found_blocked(found.optional()))
    }

    async fn store_progress(&mut self, reports: Vec<ProgressReport>) -> StorageResult<()> {
        RunQueryDsl::execute(StoreProgressQuery::new(&reports), self).await.map(drop).map_err(storage_error)
    }

    async fn add(&mut self, job: NewJob) -> StorageResult<()> {
        let _: Vec<(i64, Option<bool>)> =
            RunQueryDsl::load(EnqueueQuery::new(&job), self).await.map_err(storage_error)?;
        Ok(())
    }

    async fn finish(&mut self, finish: Finish) -> StorageResult<bool> {
        let finish = [finish];
        for store in StoreOutputsQuery::for_batch(&finish) {
            RunQueryDsl::execute(store, self).await.map_err(storage_error)?;
        }
        let moved: Vec<Vec<i64>> = RunQueryDsl::load(FinishQuery::new(&finish), self).await.map_err(storage_error)?;
        Ok(moved.iter().any(|ids| !ids.is_empty()))
    }
}
