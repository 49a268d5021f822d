//! The connection of the heartbeat. Like a connection of a pool it has an [age](super::rotation). When it has reached
//! that, the next heartbeat opens another one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel_async::AsyncPgConnection;
use diesel_jobs_core::storage::{Beat, Heartbeat, StorageResult};
use diesel_jobs_core::{Finish, JobId, Lease, StorageError, WorkerId};

use super::connect::Connector;
use super::outage::Outage;
use super::queries::{finish_batch, heartbeat, leases};
use super::rotation::Pooled;
use super::{SERVER_LIMIT, STATEMENT_LIMIT, no_answer, settings};
use crate::error::storage_error;

/// How long a heartbeat waits for a connection in the place of one that works.
const LONGEST_RENEWAL: Duration = Duration::from_secs(2);

pub(super) struct PgHeartbeat {
    conn: Pooled<AsyncPgConnection>,
    connector: Arc<Connector>,
    worker: WorkerId,
    outage: Arc<Outage>,
}

impl PgHeartbeat {
    pub(super) async fn open(connector: Arc<Connector>, worker: WorkerId, outage: Arc<Outage>) -> StorageResult<Self> {
        Ok(Self { conn: connect(&connector).await?, connector, worker, outage })
    }

    /// Opens another connection, if this one has reached its age or has gone stale. One that is only old is used on
    /// while no other can be opened: without heartbeats, all jobs of the worker would be rescued.
    async fn renew(&mut self) -> StorageResult<()> {
        let rotation = self.connector.rotation();
        if rotation.keeps(&self.conn, Instant::now()) {
            return Ok(());
        }
        if !rotation.is_current(&self.conn) {
            self.conn = connect(&self.connector).await?;
        } else if let Ok(Ok(conn)) = tokio::time::timeout(LONGEST_RENEWAL, connect(&self.connector)).await {
            self.conn = conn;
        }
        Ok(())
    }
}

async fn connect(connector: &Connector) -> StorageResult<Pooled<AsyncPgConnection>> {
    let generation = connector.rotation().generation();
    Ok(connector.rotation().opened(connector.connect().await?, generation))
}

/// Sends one statement within the time limit.
macro_rules! send {
    ($heartbeat:expr, $operation:literal, $conn:ident => $work:expr) => {{
        let PgHeartbeat { conn, connector, outage, .. } = $heartbeat;
        let (stopwatch, is_explicit) = (connector.stopwatch(), connector.explicit().holds());
        let $conn: &mut AsyncPgConnection = conn;
        let work = async {
            if !is_explicit {
                return $work.await;
            }
            settings::begin($conn, stopwatch.limit(SERVER_LIMIT)).await?;
            let answer = $work.await;
            settings::end($conn, answer).await
        };
        let answer = match tokio::time::timeout(stopwatch.limit(STATEMENT_LIMIT), work).await {
            Ok(answer) => answer.map_err(storage_error),
            Err(_) => Err::<_, StorageError>(no_answer($operation)),
        };
        answer.inspect_err(|_| outage.begin())
    }};
}

#[async_trait]
impl Heartbeat for PgHeartbeat {
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>> {
        self.renew().await?;
        let worker = self.worker;
        send!(self, "heartbeat", conn => heartbeat::heartbeat(conn, worker, drains, lease))
    }

    async fn leases(&mut self) -> StorageResult<Vec<(JobId, i32)>> {
        self.renew().await?;
        let worker = self.worker;
        let valid = send!(self, "leases", conn => leases::leases(conn, worker, None))?;
        Ok(valid.into_iter().map(|(id, number)| (JobId(id), number)).collect())
    }

    async fn release(&mut self, leases: &[Lease]) -> StorageResult<Vec<JobId>> {
        self.renew().await?;
        let releases: Vec<Finish> = leases.iter().copied().map(Finish::release).collect();
        send!(self, "release", conn => finish_batch::finish(conn, &releases))
    }
}
