//! The runner: occupies one slot of a queue, and runs one prefetched job after another until none is left.

use std::sync::Arc;
use std::time::Instant;

use tracing::Instrument as _;

use super::batch;
use super::executor::Executor;
use super::queue::Slot;
use super::report::Reporter;
use super::shared::Shared;
use super::threads::{self, Work};
use crate::context::JobContext;
use crate::telemetry;

/// How many jobs run in a row before the other tasks of the thread get their turn. One of those tasks fetches the next
/// jobs.
const IN_A_ROW: usize = 16;

/// Starts a runner for each free slot that has a prefetched job.
pub(super) fn start(shared: &Arc<Shared>, reporter: &Reporter) {
    shared.queues.for_each_that_may_start(|queue| {
        while let Some((slot, ctx)) = queue.start() {
            let executor = Executor::new(shared.clone(), reporter.clone());
            // Taken here, because otherwise each free slot would begin with one job of the batch.
            let companions = batch::companions(shared, &slot, &ctx);
            shared.runners.spawn(run(executor, slot, ctx, companions));
        }
    });
}

/// `companions` are the other jobs of a batch.
async fn run(executor: Executor, mut slot: Slot, mut ctx: JobContext, mut companions: Vec<JobContext>) {
    let mut in_a_row = 0_usize;
    loop {
        // A handler that outlives its attempt keeps the slot.
        let (freed, taken) = match Work::of(&executor, ctx) {
            Ok(work) => match threads::run(&executor, slot, work).await {
                Some(ended) => ended,
                None => return,
            },
            Err(ctx) => match execute(&executor, slot, ctx, std::mem::take(&mut companions)).await {
                Some(slot) => (slot, None),
                None => return,
            },
        };
        slot = freed;
        // A thread may have taken this job from the prefetched ones. No other runner can find it, so it must run here.
        let next = match taken {
            None if executor.is_draining() => None,
            None => slot.queue().next(),
            taken => taken,
        };
        match next {
            Some(next) => {
                companions = batch::companions(&executor.shared, &slot, &next);
                ctx = next;
            }
            None => return,
        }
        // Handlers that never wait must not keep the other tasks of this thread from running.
        in_a_row += 1;
        if in_a_row.is_multiple_of(IN_A_ROW) {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs one job on this task, or on a separate task if its handler needs one. Runs it with its companions if its
/// handler takes batches.
async fn execute(executor: &Executor, slot: Slot, ctx: JobContext, companions: Vec<JobContext>) -> Option<Slot> {
    if let Some((registration, handler)) = batch::handler(&executor.shared, ctx.kind()) {
        let jobs = batch::gathered(executor, handler, &slot, ctx, companions).await;
        if jobs.is_empty() {
            return Some(slot);
        }
        let (started, count) = (Instant::now(), u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        let slot = Box::pin(batch::run(executor, registration, handler, jobs, slot)).await?;
        slot.queue().prefetch.ran(started.elapsed() / count);
        return Some(slot);
    }
    let (started, span) = (Instant::now(), telemetry::job_span(ctx.claimed()));
    let slot = executor.execute(ctx, slot).instrument(span).await?;
    slot.queue().prefetch.ran(started.elapsed());
    Some(slot)
}
