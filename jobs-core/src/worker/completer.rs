//! The completer: one per process. It writes finishes in batches. A batch contains the finishes that arrived while the
//! batch before it was written, so a single finish does not wait. With many finishes on a fast disk, that would make
//! many small batches, each with its own statement and commit. So after a large batch, the next one waits for more
//! finishes. After a batch that has claimed jobs, the next one waits for these jobs, if they are short. Otherwise the
//! jobs of one key would divide into several generations, each with its own statement.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::report::{BATCH, Report, Reporter};
use super::shared::Shared;
use super::writer::Writer;

/// A batch of at least this size means that many finishes come in.
const LARGE_BATCH: usize = 32;
/// How long the batch after a large one waits for more finishes, at most.
const FILL_TIME: Duration = Duration::from_millis(4);
/// The capacity of the channel of finishes. If it is full, executors wait (back-pressure).
const CAPACITY: usize = 4 * BATCH;

pub(super) struct Completer {
    reporter: Reporter,
    task: JoinHandle<()>,
}

impl Completer {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let (queue, reports) = mpsc::channel(CAPACITY);
        Self { reporter: Reporter::new(queue), task: tokio::spawn(run(shared.clone(), reports)) }
    }

    pub(super) fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Writes the waiting finishes that the database accepts. Stops at this time.
    pub(super) async fn flush(self, until: Instant) {
        let Self { reporter, task } = self;
        drop(reporter);
        let abort = task.abort_handle();
        if tokio::time::timeout_at(until, task).await.is_err() {
            abort.abort();
        }
    }
}

/// Runs until all reporters are gone and every finish is written or refused.
async fn run(shared: Arc<Shared>, mut reports: mpsc::Receiver<Report>) {
    let mut writer = Writer::new(shared);
    let mut batch = Vec::with_capacity(BATCH);
    let mut large = false;
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
        if large {
            fill(&mut batch, &mut reports, BATCH, FILL_TIME).await;
        } else if let Some((claimed, time)) = writer.has_claimed() {
            let most = (received + claimed).min(writer.in_flight()).min(BATCH);
            fill(&mut batch, &mut reports, most, time.min(FILL_TIME)).await;
        }
        large = batch.len() >= LARGE_BATCH;
        writer.write(std::mem::take(&mut batch)).await;
    }
}

/// Waits for more finishes, until there are this many, the time is over or all reporters are gone.
async fn fill(batch: &mut Vec<Report>, reports: &mut mpsc::Receiver<Report>, most: usize, time: Duration) {
    let _ = tokio::time::timeout(time, async {
        while batch.len() < most && reports.recv_many(batch, BATCH - batch.len()).await > 0 {}
    })
    .await;
}
