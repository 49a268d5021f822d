//! Diesel's own connections to PostgreSQL.

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel::PgConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls::{self, Expired};
use diesel_jobs_core::{
    BatchCall, ClaimedJob, Finish, Handled, Handler, JobContext, JobError, JobId, NewJob, ProgressReport,
    TransactionalBatch, WorkerId,
};
use futures_util::future::BoxFuture;

use super::blocked::found as found_blocked;
use super::{Among, Blocked, TestConnection, Waiting, batch, now, other_connection, rows, savepoint, stuck};
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
impl TestConnection for PgConnection {
    type Answer<'c, T: Send + 'c> = T;

    fn answer<'c, T: Send + 'c>(future: BoxFuture<'c, T>) -> T {
        now(future)
    }

    fn provides(connection: TypeId) -> bool {
        connection == TypeId::of::<Self>()
    }

    async fn waiting(&mut self, among: Among) -> StorageResult<Waiting> {
        let jobs: Vec<JobRow> = waiting!(among).load(self).map_err(storage_error)?;
        let now = diesel::select(sql::<Timestamptz>("clock_timestamp()")).get_result(self).map_err(storage_error)?;
        Ok(Waiting { jobs: jobs.into_iter().map(Into::into).collect(), now })
    }

    async fn start(&mut self, job: JobId, worker: WorkerId) -> StorageResult<Option<ClaimedJob>> {
        let started: Vec<ClaimedRow> = StartForTestQuery::new(job, worker).load(self).map_err(storage_error)?;
        let mut started: Vec<ClaimedJob> = started.into_iter().map(|row| row.into_job(worker)).collect();
        if expire::any_expires(&started) {
            let times: Vec<(i64, DateTime<Utc>)> = StartByQuery::new(&started).load(self).map_err(storage_error)?;
            expire::add_start_by(&mut started, &times);
        }
        Ok(started.pop())
    }

    async fn call(&mut self, handler: Handler, ctx: JobContext, limit: Duration) -> Result<Handled, Expired> {
        match handler {
            Handler::Async(handle) => calls::on_a_thread(handle, ctx, limit),
            Handler::Batch(handler) => match handler.call {
                BatchCall::Plain(handle) => {
                    calls::on_a_thread(move |ctx| Box::pin(batch::plain(handle, ctx)), ctx, limit)
                }
                BatchCall::Transactional(TransactionalBatch::Blocking(handle)) => {
                    Ok(batch::blocking(self, handle, &ctx, limit))
                }
                BatchCall::Transactional(TransactionalBatch::Async(_)) => Ok(Err(other_connection())),
            },
            Handler::Blocking(handle) => calls::blocking_on_a_thread(handle, ctx, limit),
            Handler::BlockingTransactional(handle) => {
                Ok(savepoint::blocking(self, |conn| stuck::reported(&ctx, limit, || handle(conn, ctx.clone()))))
            }
            Handler::AsyncTransactional(_) => Ok(Err(other_connection())),
            Handler::WithRows(handler) => {
                rows::call_blocking(rows::through_sync(self, *handler, ctx.clone()), ctx, limit)
            }
        }
    }

    async fn blocked(&mut self) -> Blocked {
        found_blocked(blocked::session().get_result(self).optional())
    }

    async fn store_progress(&mut self, reports: Vec<ProgressReport>) -> StorageResult<()> {
        StoreProgressQuery::new(&reports).execute(self).map(drop).map_err(storage_error)
    }

    async fn add(&mut self, job: NewJob) -> StorageResult<()> {
        let _: Vec<(i64, Option<bool>)> = EnqueueQuery::new(&job).load(self).map_err(storage_error)?;
        Ok(())
    }

    async fn hook<T: Send + 'static>(
        &mut self,
        hook: BoxFuture<'static, T>,
        limit: Duration,
    ) -> Result<Result<T, JobError>, Expired> {
        calls::hook_on_a_thread(hook, limit)
    }

    async fn finish(&mut self, finish: Finish) -> StorageResult<bool> {
        let finish = [finish];
        for store in StoreOutputsQuery::for_batch(&finish) {
            store.execute(self).map_err(storage_error)?;
        }
        let moved: Vec<Vec<i64>> = FinishQuery::new(&finish).load(self).map_err(storage_error)?;
        Ok(moved.iter().any(|ids| !ids.is_empty()))
    }
}
