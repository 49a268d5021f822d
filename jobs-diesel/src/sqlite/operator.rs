//! What people ask of the file.

use std::sync::Arc;

use async_trait::async_trait;
use jobs_core::storage::{JobFilter, Operated, Operator, StorageResult};
use jobs_core::{AttemptError, DeadLetters, JobId, JobRecord, KindStats, WorkerRecord};

use crate::sqlite::queries::{inspect, operate, stats, workers};
use crate::sqlite::slot::Slot;

/// The verbs for people.
pub(super) struct SqliteOperator {
    pub(super) writer: Arc<Slot>,
    pub(super) reader: Arc<Slot>,
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

    async fn retry_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        let ids = ids.to_vec();
        self.writer.write(move |conn| operate::each(&ids, |id| operate::retry(conn, id))).await
    }

    async fn cancel_many(&self, ids: &[JobId]) -> StorageResult<Vec<Operated>> {
        let ids = ids.to_vec();
        self.writer.write(move |conn| operate::each(&ids, |id| operate::cancel(conn, id))).await
    }

    async fn stats(&self) -> StorageResult<Vec<KindStats>> {
        self.reader.read(stats::stats).await
    }

    async fn dead_letters(&self) -> StorageResult<DeadLetters> {
        // A job is one row of one table here, whose key is its id: no move of it can be refused.
        Ok(DeadLetters::default())
    }

    async fn workers(&self) -> StorageResult<Vec<WorkerRecord>> {
        self.reader.read(workers::list).await
    }
}
