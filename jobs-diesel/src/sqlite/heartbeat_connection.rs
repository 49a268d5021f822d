//! Writes the heartbeats of one worker, through the connection of all its writes, and reads its leases through one of
//! its own, which waits for no transaction and sees what is committed. Both work while the runtime of the worker is
//! blocked.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel_jobs_core::storage::{Beat, Heartbeat, StorageResult};
use diesel_jobs_core::{Finish, JobId, Lease, WorkerId};

use crate::sqlite::queries::{finish, heartbeat, leases};
use crate::sqlite::shared_connection::SharedConnection;

pub(super) struct SqliteHeartbeat {
    pub(super) worker: WorkerId,
    pub(super) writer: Arc<SharedConnection>,
    /// Opened when the leases are read for the first time.
    pub(super) reader: Arc<SharedConnection>,
}

#[async_trait]
impl Heartbeat for SqliteHeartbeat {
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>> {
        let worker = self.worker;
        self.writer.write_lazily(move |conn| heartbeat::heartbeat(conn, worker, drains, lease)).await
    }

    async fn leases(&mut self) -> StorageResult<Vec<(JobId, i32)>> {
        let worker = self.worker;
        self.reader.read(move |conn| leases::leases(conn, worker)).await
    }

    async fn release(&mut self, leases: &[Lease]) -> StorageResult<Vec<JobId>> {
        let releases: Vec<Finish> = leases.iter().copied().map(Finish::release).collect();
        self.writer.write(move |conn| finish::finish(conn, &releases)).await
    }
}
