//! The runner: occupies one slot of a queue, and runs job after job of those in hand until none is left.

use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument as _;

use super::Shared;
use super::completer::Reporter;
use super::executor::Executor;
use super::queues::Slot;
use crate::context::JobContext;
use crate::telemetry;

/// Starts a runner for each free slot that has a job in hand.
pub(super) fn start(shared: &Arc<Shared>, reporter: &Reporter) {
    for queue in shared.queues.iter() {
        while let Some((slot, ctx)) = queue.start() {
            let executor = Executor::new(shared.clone(), reporter.clone());
            shared.executors.spawn(run(executor, slot, ctx));
        }
    }
}

async fn run(executor: Executor, mut slot: Slot, mut ctx: JobContext) {
    loop {
        let started = Instant::now();
        let span = telemetry::job_span(ctx.claimed());
        // A handler that has not ended when its attempt has keeps the slot.
        let Some(freed) = executor.execute(ctx, slot).instrument(span).await else { return };
        slot = freed;
        slot.queue().pace.ran(started.elapsed());
        if executor.is_draining() {
            return;
        }
        match slot.queue().next() {
            Some(next) => ctx = next,
            None => return,
        }
        // Handlers that never wait must not keep the others of this thread from their turn.
        tokio::task::coop::consume_budget().await;
    }
}
