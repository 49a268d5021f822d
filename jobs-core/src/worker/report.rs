//! How attempts ended, on the way from executors to the completer.

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
    /// The job may be gone because the handler's own transaction committed.
    pub(super) may_be_settled: bool,
}

/// Where executors hand in how their attempts ended.
#[derive(Clone)]
pub(super) struct Reporter {
    queue: mpsc::Sender<Report>,
}

impl Reporter {
    pub(super) fn new(queue: mpsc::Sender<Report>) -> Self {
        Self { queue }
    }

    /// Has the finish written with the next batch. Waits while too many are waiting.
    pub(super) async fn finish(&self, ctx: JobContext, transition: Transition, ran: Duration) {
        self.hand_in(Report { ctx, transition, ran, may_be_settled: false }).await;
    }

    /// A finish of a job that never ran.
    pub(super) async fn report(&self, ctx: JobContext, transition: Transition) {
        self.finish(ctx, transition, Duration::ZERO).await;
    }

    /// A finish that may find its job gone, and then all is well.
    pub(super) async fn settle(&self, ctx: JobContext, transition: Transition, ran: Duration) {
        self.hand_in(Report { ctx, transition, ran, may_be_settled: true }).await;
    }

    async fn hand_in(&self, report: Report) {
        // The completer outlives every executor; should it be gone, the lease runs out and the job is rescued.
        let _ = self.queue.send(report).await;
    }
}
