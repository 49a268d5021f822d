//! The completer: one per process, writes finishes in batches. A batch is whatever came in while the one before was
//! being written, so that a lone finish waits for nothing. In a flood that alone would make many small batches on a fast
//! disk, each with a statement and a commit to pay: while batches are large, one waits a moment to become full.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::report::{BATCH, Report, Reporter};
use super::shared::Shared;
use super::writer::Writer;

/// From this size on, a batch tells of a flood.
const FLOOD: usize = 32;
/// What the batch after such a one waits at most.
const LINGER: Duration = Duration::from_millis(4);
/// Finishes that wait before executors do: back-pressure.
const WAITING: usize = 4 * BATCH;

pub(super) struct Completer {
    reporter: Reporter,
    task: JoinHandle<()>,
}

impl Completer {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let (queue, reports) = mpsc::channel(WAITING);
        Self { reporter: Reporter::new(queue), task: tokio::spawn(run(shared.clone(), reports)) }
    }

    pub(super) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Writes what is still waiting, as far as the database lets it, until this time.
    pub(super) async fn flush(self, until: Instant) {
        let Self { reporter, task } = self;
        drop(reporter);
        let abort = task.abort_handle();
        if tokio::time::timeout_at(until, task).await.is_err() {
            abort.abort();
        }
    }
}

/// Runs until every reporter is gone and everything is written, or refused.
async fn run(shared: Arc<Shared>, mut reports: mpsc::Receiver<Report>) {
    let mut writer = Writer::new(shared);
    let mut batch = Vec::with_capacity(BATCH);
    let mut flood = false;
    loop {
        let received = tokio::select! {
            received = reports.recv_many(&mut batch, BATCH), if writer.has_room() => received,
            () = writer.until_again() => {
                writer.try_again().await;
                continue;
            }
        };
        if received == 0 {
            return writer.finish_up().await;
        }
        if flood {
            fill(&mut batch, &mut reports).await;
        }
        flood = batch.len() >= FLOOD;
        writer.write(std::mem::take(&mut batch)).await;
    }
}

/// Waits for more, until the batch is full, the time is over or nobody is left to report.
async fn fill(batch: &mut Vec<Report>, reports: &mut mpsc::Receiver<Report>) {
    let _ = tokio::time::timeout(LINGER, async {
        while batch.len() < BATCH && reports.recv_many(batch, BATCH - batch.len()).await > 0 {}
    })
    .await;
}
