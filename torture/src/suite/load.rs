//! The application, which enqueues jobs during a test: until its workload is done, or until it is asked to stop.

use std::time::Duration;

use anyhow::Result;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use torture::workload::{Application, Workload};

/// A running application.
pub(super) struct Load {
    task: AbortOnDropHandle<Result<Application>>,
    stop: CancellationToken,
}

impl Load {
    /// Starts it, with a pause after each action.
    pub(super) fn start(url: String, workload: Workload, pause: Duration) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut application = Application::new(url);
            for call in workload {
                if stopped.is_cancelled() {
                    break;
                }
                application.perform(&call).await?;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
            Ok(application)
        }));
        Self { task, stop }
    }

    /// Waits until it has done everything. Returns it, so that its record can be read.
    pub(super) async fn ended(self) -> Result<Application> {
        self.task.await?
    }

    /// Asks it to stop after the current action, and waits for that.
    pub(super) async fn stop(self) -> Result<Application> {
        self.stop.cancel();
        self.ended().await
    }
}
