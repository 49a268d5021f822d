//! Reports about ended attempts, which executors send to the completer.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::context::JobContext;
use crate::outcome::Transition;

/// The largest batch of finishes.
pub(super) const BATCH: usize = 500;

#[derive(Clone)]
pub(super) struct Report {
    pub(super) ctx: JobContext,
    pub(super) transition: Transition,
    pub(super) ran: Duration,
    /// The job may have ended already, because the handler's own transaction may have been committed.
    pub(super) may_be_settled: bool,
}

impl Report {
    /// The release of a job that never ran.
    pub(super) fn release(ctx: JobContext) -> Self {
        Self { ctx, transition: Transition::Release, ran: Duration::ZERO, may_be_settled: false }
    }
}

/// Sends reports to the completer.
#[derive(Clone)]
pub(crate) struct Reporter {
    queue: mpsc::Sender<Report>,
}

impl Reporter {
    pub(super) fn new(queue: mpsc::Sender<Report>) -> Self {
        Self { queue }
    }

    /// Adds the finish to the next batch. Waits while too many finishes are waiting.
    pub(super) async fn finish(&self, ctx: JobContext, transition: Transition, ran: Duration) {
        self.send(Report { ctx, transition, ran, may_be_settled: false }).await;
    }

    /// Adds a finish of a job that never ran.
    pub(crate) async fn report(&self, ctx: JobContext, transition: Transition) {
        self.finish(ctx, transition, Duration::ZERO).await;
    }

    /// Adds a finish of a job that may have ended already. If so, that is no error.
    pub(super) async fn settle(&self, ctx: JobContext, transition: Transition, ran: Duration) {
        self.send(Report { ctx, transition, ran, may_be_settled: true }).await;
    }

    /// A reporter for the heartbeat's thread, for which the completer does not wait at its end.
    pub(super) fn downgrade(&self) -> WeakReporter {
        WeakReporter { queue: self.queue.downgrade() }
    }

    async fn send(&self, report: Report) {
        // The completer outlives every executor. If it has ended nevertheless, the lease runs out and the job is
        // rescued.
        let _ = self.queue.send(report).await;
    }
}

/// Sends reports to the completer as long as there is one.
pub(super) struct WeakReporter {
    queue: mpsc::WeakSender<Report>,
}

impl WeakReporter {
    /// Adds the release of a job that never ran. Returns the job if too many finishes are waiting, or if the completer
    /// has ended.
    pub(super) fn release(&self, ctx: JobContext) -> Result<(), JobContext> {
        let Some(queue) = self.queue.upgrade() else { return Err(ctx) };
        queue.try_send(Report::release(ctx)).map_err(|refused| refused.into_inner().ctx)
    }
}
