//! The operations of operators on SQLite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::{JobFilter, Operated, Operator, StorageResult};
use diesel_jobs_core::{AttemptError, DeadLetters, JobEnd, JobId, JobRecord, Progress, WorkerRecord};

use crate::sqlite::queries::{inspect, installation, operate, output, progress, worker};
use crate::sqlite::shared_connection::SharedConnection;

/// The connections for the operations of operators.
pub(super) struct SqliteOperator {
    pub(super) writer: Arc<SharedConnection>,
    pub(super) reader: Arc<SharedConnection>,
}

#[async_trait]
impl Operator for SqliteOperator {
    async fn list(&self, filter: &JobFilter) -> StorageResult<Vec<JobRecord>> {
        let filter = filter.clone();
        self.reader.read(move |conn| inspect::list(conn, &filter)).await
    }

    async fn show_many(&self, ids: &[JobId]) -> StorageResult<Vec<(JobRecord, Vec<AttemptError>)>> {
        let ids = ids.to_vec();
        self.reader.read(move |conn| inspect::show(conn, &ids)).await
    }

    async fn end(&self, id: JobId) -> StorageResult<Option<JobEnd>> {
        self.reader.read(move |conn| output::end(conn, id)).await
    }

    async fn progress(&self, id: JobId) -> StorageResult<Option<Progress>> {
        self.reader.read(move |conn| progress::progress(conn, id)).await
    }

    async fn retry_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        let ids = ids.to_vec();
        self.writer.write(move |conn| operate::each(&ids, |id| operate::retry(conn, id))).await
    }

    async fn cancel_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        let ids = ids.to_vec();
        self.writer.write(move |conn| operate::each(&ids, |id| operate::cancel(conn, id))).await
    }

    async fn dead_letters(&self) -> StorageResult<DeadLetters> {
        // On SQLite a job is one row of one table, and its id is the key. So the database refuses no move of a row.
        Ok(DeadLetters::default())
    }

    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>> {
        self.reader.read(worker::list).await
    }

    async fn freeze(&self, by: &str, reason: &str) -> StorageResult<bool> {
        let (by, reason) = (by.to_owned(), reason.to_owned());
        self.writer.write(move |conn| installation::freeze(conn, &by, &reason)).await
    }

    async fn thaw(&self) -> StorageResult<bool> {
        self.writer.write(installation::thaw).await
    }

    async fn set_environment(&self, environment: Option<&str>) -> StorageResult<()> {
        let environment = environment.map(str::to_owned);
        self.writer.write(move |conn| installation::set_environment(conn, environment.as_deref())).await
    }

    async fn cancel_enqueued_before(&self, time: DateTime<Utc>, limit: usize) -> StorageResult<usize> {
        self.writer.write(move |conn| operate::cancel_enqueued_before(conn, time, limit)).await
    }

    async fn bring_forward(&self, queues: &[String], kinds: &[String]) -> StorageResult<Duration> {
        let (queues, kinds) = (queues.to_vec(), kinds.to_vec());
        self.writer.write(move |conn| operate::bring_forward(conn, &queues, &kinds)).await
    }

    async fn forget_missed_ticks(&self) -> StorageResult<()> {
        self.writer.write(installation::forget_missed_ticks).await
    }
}
