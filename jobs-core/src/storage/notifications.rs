//! How a worker that waits hears that there is work. All of it is a hint: whoever hears nothing polls.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::StorageResult;
use crate::lease::WorkerId;

/// What wakes a worker that waits.
#[async_trait]
pub trait Notifications: Send + Sync {
    /// Says whether the worker waits for work, so that enqueues wake it only when it does.
    async fn set_idle(&self, worker: WorkerId, idle: bool) -> StorageResult<()>;

    /// Listens for work in these queues on a connection of its own until `stop`, and notifies `wake` at each hint. Reconnects
    /// by itself; a lost hint costs one poll interval.
    async fn listen(&self, queues: &[String], wake: Arc<Notify>, stop: CancellationToken);
}
