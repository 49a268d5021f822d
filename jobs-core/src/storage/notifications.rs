//! Notifications of idle workers. They are only hints: a worker that gets no notification polls.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::StorageResult;
use crate::lease::WorkerId;

/// What wakes an idle worker.
#[async_trait]
pub trait Notifications: Send + Sync {
    /// Stores whether the worker is idle, so that enqueues wake it only then.
    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()>;

    /// Listens for jobs in these queues on its own connection until `stop`. It notifies `wake` at each notification,
    /// and `admission` if a job may have become held. It reconnects automatically. If a notification is lost, the
    /// worker finds the job at its next poll.
    async fn listen(&self, queues: &[String], wake: Arc<Notify>, admission: Arc<Notify>, stop: CancellationToken);
}
