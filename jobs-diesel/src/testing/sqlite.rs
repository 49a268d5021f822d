//! Diesel's own connections to SQLite.

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls::{self, Expired};
use diesel_jobs_core::{
    BatchCall, ClaimedJob, Finish, Handled, Handler, JobContext, JobError, JobId, NewJob, ProgressReport,
    TransactionalBatch, WorkerId,
};
use futures_util::future::BoxFuture;

use super::{Among, TestConnection, Waiting, batch, now, other_connection, rows, savepoint, stuck};
use crate::error::storage_error;
use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::{claim, finish, inspect, progress};

#[async_trait]
impl TestConnection for SqliteConnection {
    type Answer<'c, T: Send + 'c> = T;

    fn answer<'c, T: Send + 'c>(future: BoxFuture<'c, T>) -> T {
        now(future)
    }

    fn provides(connection: TypeId) -> bool {
        connection == TypeId::of::<Self>()
    }

    async fn waiting(&mut self, among: Among) -> StorageResult<Waiting> {
        let (jobs, now) = inspect::waiting(self, among).map_err(storage_error)?;
        Ok(Waiting { jobs, now })
    }

    async fn start(&mut self, job: JobId, worker: WorkerId) -> StorageResult<Option<ClaimedJob>> {
        claim::start(self, job, worker).map_err(storage_error)
    }

    async fn call(&mut self, handler: Handler, ctx: JobContext, limit: Duration) -> Result<Handled, Expired> {
        call(self, handler, ctx, limit)
    }

    async fn store_progress(&mut self, reports: Vec<ProgressReport>) -> StorageResult<()> {
        progress::store(self, &reports).map_err(storage_error)
    }

    async fn add(&mut self, job: NewJob) -> StorageResult<()> {
        Insert::one(&job).execute(self).map(drop).map_err(storage_error)
    }

    async fn hook<T: Send + 'static>(
        &mut self,
        hook: BoxFuture<'static, T>,
        limit: Duration,
    ) -> Result<Result<T, JobError>, Expired> {
        calls::hook_on_a_thread(hook, limit)
    }

    async fn finish(&mut self, finish: Finish) -> StorageResult<bool> {
        write(self, &finish).map_err(storage_error)
    }
}

/// Calls any handler from a thread that may block.
pub(super) fn call(
    conn: &mut SqliteConnection,
    handler: Handler,
    ctx: JobContext,
    limit: Duration,
) -> Result<Handled, Expired> {
    match handler {
        Handler::Async(handle) => calls::on_a_thread(handle, ctx, limit),
        Handler::Batch(handler) => match handler.call {
            BatchCall::Plain(handle) => calls::on_a_thread(move |ctx| Box::pin(batch::plain(handle, ctx)), ctx, limit),
            BatchCall::Transactional(TransactionalBatch::Blocking(handle)) => {
                Ok(batch::blocking(conn, handle, &ctx, limit))
            }
            BatchCall::Transactional(TransactionalBatch::Async(_)) => Ok(Err(other_connection())),
        },
        Handler::Blocking(handle) => calls::blocking_on_a_thread(handle, ctx, limit),
        Handler::BlockingTransactional(handle) => {
            Ok(savepoint::blocking(conn, |conn| stuck::reported(&ctx, limit, || handle(conn, ctx.clone()))))
        }
        Handler::AsyncTransactional(_) => Ok(Err(other_connection())),
        Handler::WithRows(handler) => rows::call_blocking(rows::through_sync(conn, *handler, ctx.clone()), ctx, limit),
    }
}

pub(super) fn write(conn: &mut SqliteConnection, finish: &Finish) -> QueryResult<bool> {
    conn.transaction(|conn| finish::finish_one(conn, finish))
}
