//! A worker that runs in the test's process.

use diesel_jobs::worker::{WorkerHandle, WorkerStats};
use diesel_jobs::{WorkerBuilder, WorkerError};
use tokio::task::JoinHandle;

use crate::{LIMIT, within};

/// A running worker.
#[derive(Debug)]
pub struct Running {
    handle: WorkerHandle,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    /// Starts it.
    pub fn start(worker: WorkerBuilder) -> Self {
        let worker = worker.build().unwrap();
        let handle = worker.handle();
        Self { handle, task: tokio::spawn(worker.run_until(std::future::pending())) }
    }

    /// Its handle.
    pub fn handle(&self) -> &WorkerHandle {
        &self.handle
    }

    /// Asks it to drain, and waits for its end.
    pub async fn stop(self) -> WorkerStats {
        self.handle.shutdown();
        self.ended().await
    }

    /// Waits for its end.
    pub async fn ended(self) -> WorkerStats {
        within(LIMIT, "the worker's end", self.task).await.unwrap().unwrap();
        self.handle.stats()
    }
}
