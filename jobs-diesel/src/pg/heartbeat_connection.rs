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
use super::{SERVER_LIMIT, STATEMENT_LIMIT, ended, no_answer, settings, stale};
use crate::error::storage_error;

/// How long a heartbeat waits for a connection in the place of one that works.
const LONGEST_RENEWAL: Duration = Duration::from_secs(2);

pub(super) struct PgHeartbeat {
    conn: Pooled<AsyncPgConnection>,
    connector: Arc<Connector>,
    worker: WorkerId,
    /// What [`moves`](super::rotation::Rotation::moves) said when the connection was opened.
    moves: u64,
    /// The connection before this one, if this one may lead to another database.
    left: Option<Pooled<AsyncPgConnection>>,
    outage: Arc<Outage>,
}

/// Sends one statement within the time limit.
macro_rules! send {
    ($heartbeat:expr, $operation:literal, $conn:ident => $work:expr) => {{
        let PgHeartbeat { conn, connector, outage, .. } = $heartbeat;
        let (stopwatch, is_explicit) = (connector.stopwatch(), connector.explicit().holds());
        let $conn: &mut AsyncPgConnection = conn;
        let work = async {
            if !is_explicit {
                let answer = $work.await;
                return ended::told(answer, $conn).await;
            }
            settings::begin($conn, stopwatch.limit(SERVER_LIMIT)).await?;
            let answer = $work.await;
            let answer = settings::end($conn, answer).await;
            ended::told(answer, $conn).await
        };
        let answer = match tokio::time::timeout(stopwatch.limit(STATEMENT_LIMIT), work).await {
            Ok(answer) => answer.map_err(|error| {
                // After an error the worker opens another one for the next heartbeat.
                let _ = connector.rotation().is_stale(conn, stale::of_statement(&error));
                storage_error(error)
            }),
            Err(_) => Err::<_, StorageError>(no_answer($operation)),
        };
        answer.inspect_err(|_| outage.begin())
    }};
}

impl PgHeartbeat {
    pub(super) async fn open(connector: Arc<Connector>, worker: WorkerId, outage: Arc<Outage>) -> StorageResult<Self> {
        let conn = connect(&connector).await?;
        let moves = connector.rotation().moves();
        Ok(Self { conn, connector, worker, moves, left: None, outage })
    }

    /// Opens another connection, if this one has reached its age or has gone stale. One that is only old is used on
    /// while no other can be opened: without heartbeats, all jobs of the worker would be rescued.
    async fn renew(&mut self) -> StorageResult<()> {
        let rotation = self.connector.rotation();
        if rotation.keeps(&self.conn, Instant::now()) {
            return Ok(());
        }
        if !rotation.is_current(&self.conn) {
            let conn = connect(&self.connector).await?;
            self.replace(conn);
        } else if let Ok(Ok(conn)) = tokio::time::timeout(LONGEST_RENEWAL, connect(&self.connector)).await {
            self.replace(conn);
        }
        Ok(())
    }

    fn replace(&mut self, conn: Pooled<AsyncPgConnection>) {
        let before = std::mem::replace(&mut self.conn, conn);
        let moves = self.connector.rotation().moves();
        self.left = (std::mem::replace(&mut self.moves, moves) < moves).then_some(before);
    }

    /// The process has moved to another database, in which the worker has no row. The ends of its jobs are not stored
    /// in the one before any more. So the last heartbeat there says that the worker drains, and a rescue releases the
    /// jobs: the worker has not died with them.
    async fn leave(&mut self, lease: Duration) {
        if let Some(mut conn) = self.left.take() {
            let worker = self.worker;
            let said = async { heartbeat::heartbeat(&mut conn, worker, true, lease).await };
            // The server may be gone.
            let _ = tokio::time::timeout(LONGEST_RENEWAL, said).await;
        }
    }
}

async fn connect(connector: &Connector) -> StorageResult<Pooled<AsyncPgConnection>> {
    Ok(connector.connect_pooled().await?)
}

#[async_trait]
impl Heartbeat for PgHeartbeat {
    async fn beat(&mut self, drains: bool, lease: Duration) -> StorageResult<Option<Beat>> {
        self.renew().await?;
        let worker = self.worker;
        let beat = send!(self, "heartbeat", conn => heartbeat::heartbeat(conn, worker, drains, lease))?;
        match beat {
            None => self.leave(lease).await,
            // Another way to the same database.
            Some(_) => self.left = None,
        }
        Ok(beat)
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
