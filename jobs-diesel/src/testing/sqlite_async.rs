//! diesel-async's connections to SQLite.

use std::any::TypeId;
use std::time::Duration;

use async_trait::async_trait;
use diesel::{QueryResult, RunQueryDsl, SqliteConnection};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls::{self, Expired};
use diesel_jobs_core::{
    BatchCall, BatchHandler, ClaimedJob, Finish, Handled, Handler, JobContext, JobError, JobId, NewJob, ProgressReport,
    WorkerId,
};
use futures_util::future::BoxFuture;

use super::{Among, TestConnection, Waiting, batch, rows, sqlite};
use crate::connection_future::BoxConnectionFuture;
use crate::error::storage_error;
use crate::sqlite::queries::enqueue::Insert;
use crate::sqlite::queries::{claim, inspect, progress};

#[async_trait]
impl TestConnection for SyncConnectionWrapper<SqliteConnection> {
    type Answer<'c, T: Send + 'c> = BoxConnectionFuture<'c, T>;

    fn answer<'c, T: Send + 'c>(future: BoxFuture<'c, T>) -> BoxConnectionFuture<'c, T> {
        Box::pin(future)
    }

    /// Plain handlers take the connection inside the wrapper.
    fn provides(connection: TypeId) -> bool {
        connection == TypeId::of::<SqliteConnection>()
    }

    async fn waiting(&mut self, among: Among) -> StorageResult<Waiting> {
        let (jobs, now) =
            self.spawn_blocking(move |conn| inspect::waiting(conn, among)).await.map_err(storage_error)?;
        Ok(Waiting { jobs, now })
    }

    async fn start(&mut self, job: JobId, worker: WorkerId) -> StorageResult<Option<ClaimedJob>> {
        self.spawn_blocking(move |conn| claim::start(conn, job, worker)).await.map_err(storage_error)
    }

    async fn call(&mut self, handler: Handler, ctx: JobContext, limit: Duration) -> Result<Handled, Expired> {
        match handler {
            Handler::Async(handle) => calls::caught_within(limit, async move { handle(ctx).await }).await,
            Handler::Batch(&BatchHandler { call: BatchCall::Plain(handle), .. }) => {
                calls::caught_within(limit, batch::plain(handle, ctx)).await
            }
            Handler::Blocking(handle) => calls::on_a_thread_async(handle, ctx, limit).await,
            Handler::WithRows(&handler) => {
                let of_load = ctx.clone();
                let load =
                    move |conn: &mut SqliteConnection| QueryResult::Ok(rows::through_sync(conn, handler, of_load));
                let loaded = self.spawn_blocking(load).await.unwrap_or_else(|error| Err(Err(JobError::new(error))));
                rows::call(loaded, ctx, limit).await
            }
            transactional => {
                let call =
                    move |conn: &mut SqliteConnection| QueryResult::Ok(sqlite::call(conn, transactional, ctx, limit));
                self.spawn_blocking(call).await.unwrap_or_else(|error| Ok(Err(JobError::new(error))))
            }
        }
    }

    async fn store_progress(&mut self, reports: Vec<ProgressReport>) -> StorageResult<()> {
        self.spawn_blocking(move |conn| progress::store(conn, &reports)).await.map_err(storage_error)
    }

    async fn add(&mut self, job: NewJob) -> StorageResult<()> {
        let added = self.spawn_blocking(move |conn| Insert::one(&job).execute(conn));
        added.await.map(drop).map_err(storage_error)
    }

    async fn finish(&mut self, finish: Finish) -> StorageResult<bool> {
        self.spawn_blocking(move |conn| sqlite::write(conn, &finish)).await.map_err(storage_error)
    }
}
