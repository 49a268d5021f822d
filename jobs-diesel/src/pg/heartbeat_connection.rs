//! The connection of the heartbeat.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel_async::AsyncPgConnection;
use diesel_jobs_core::storage::{Beat, Heartbeat, StorageResult};
use diesel_jobs_core::{StorageError, WorkerId};

use super::outage::Outage;
use super::queries::heartbeat;
use super::{SERVER_LIMIT, STATEMENT_LIMIT, settings, unavailable};
use crate::error::storage_error;
use crate::stopwatch::Stopwatch;

pub(super) struct PgHeartbeat {
    pub(super) conn: AsyncPgConnection,
    pub(super) worker: WorkerId,
    pub(super) is_explicit: bool,
    pub(super) outage: Arc<Outage>,
    pub(super) stopwatch: Stopwatch,
}

#[async_trait]
impl Heartbeat for PgHeartbeat {
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>> {
        let (conn, worker, stopwatch) = (&mut self.conn, self.worker, self.stopwatch);
        let beat = async {
            if !self.is_explicit {
                return heartbeat::heartbeat(conn, worker, drains, lease).await;
            }
            settings::begin(conn, stopwatch.limit(SERVER_LIMIT)).await?;
            let answer = heartbeat::heartbeat(conn, worker, drains, lease).await;
            settings::end(conn, answer).await
        };
        let answer = match tokio::time::timeout(stopwatch.limit(STATEMENT_LIMIT), beat).await {
            Ok(answer) => answer.map_err(storage_error),
            Err(elapsed) => Err::<_, StorageError>(unavailable(elapsed)),
        };
        answer.inspect_err(|_| self.outage.begin())
    }
}
