//! Runs the attempts of a batch: jobs of one kind whose handler is called once for all of them. As for any other job,
//! the start of each job is checked separately, and so is its end. The finishes are written by the completer, or by the
//! transaction of the batch ([`batch_transaction`](super::batch_transaction)). The batch occupies one slot.
//!
//! A batch takes the jobs of its kind that are prefetched. So a queue in which batches run prefetches for full batches
//! (`Queue::expect_batches`). Then it may wait for more ([`gathering`](super::gathering)).

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::attempt::{self, Ended};
use super::batch_transaction::{BatchTransaction, Called};
use super::conclusion::Conclusion;
use super::executor::Executor;
use super::layers;
use super::queue::Slot;
use super::shared::Shared;
use crate::batch_handler::{BatchAnswer, BatchCall, BatchHandler, FailedBatch};
use crate::context::JobContext;
use crate::crash_point::crash_point;
use crate::handler::{Handler, Registration};
use crate::outcome::Transition;
use crate::storage::Transacted;
use crate::storage_error::StorageError;
use crate::telemetry;

/// The handler of a kind, if it takes batches. A worker without such kinds looks nothing up.
pub(super) fn handler<'s>(shared: &'s Shared, kind: &str) -> Option<(&'s Registration, &'static BatchHandler)> {
    if !shared.registry.has_batches() {
        return None;
    }
    let registration = shared.registry.get(kind)?;
    match registration.handler {
        Handler::Batch(handler) => Some((registration, handler)),
        _ => None,
    }
}

/// Removes the jobs that run together with this one from the prefetched jobs. There are none if the handler takes no
/// batches.
pub(super) fn companions(shared: &Shared, slot: &Slot, ctx: &JobContext) -> Vec<JobContext> {
    let Some((_, handler)) = handler(shared, ctx.kind()) else { return Vec::new() };
    slot.queue().expect_batches(handler.most);
    let key = handler.key_of(ctx);
    slot.queue().take_kind(ctx.kind(), handler.most.saturating_sub(1), |other| handler.key_of(other) == key)
}

/// Waits for more jobs of the batch, if its handler asks for that and it is not full. Returns all jobs of the batch:
/// none if they were paused meanwhile, and are released.
pub(super) async fn gathered(
    executor: &Executor,
    handler: &'static BatchHandler,
    slot: &Slot,
    ctx: JobContext,
    companions: Vec<JobContext>,
) -> Vec<JobContext> {
    let room = handler.most.saturating_sub(1 + companions.len());
    let gathering = (room > 0 && !handler.wait.is_zero() && !executor.is_draining())
        .then(|| slot.queue().gatherings.begin(handler, &ctx, room));
    let mut jobs: Vec<JobContext> = std::iter::once(ctx).chain(companions).collect();
    if let Some(gathering) = gathering {
        // The fetcher may sleep, because this slot is not free.
        slot.queue().wants_more();
        tokio::select! {
            () = gathering.full() => {}
            () = tokio::time::sleep(handler.wait) => {}
            () = executor.shared.phases.draining().cancelled() => {}
        }
        jobs.extend(gathering.end());
        // The wait may be longer than the time within which workers must follow a pause.
        if jobs.first().is_some_and(|ctx| slot.queue().is_paused(ctx)) {
            for ctx in jobs.drain(..).filter(JobContext::begin) {
                executor.report(ctx, Conclusion::Finish(Transition::Release), "start", Duration::ZERO).await;
            }
        }
    }
    jobs
}

/// Runs one attempt of each job and reports their finishes. Returns the slot, unless the handler still occupies it.
pub(super) async fn run(
    executor: &Executor,
    registration: &Registration,
    handler: &'static BatchHandler,
    jobs: Vec<JobContext>,
    slot: Slot,
) -> Option<Slot> {
    crash_point("start");
    let shared = &executor.shared;
    let started = Instant::now();
    let jobs = begin(executor, registration, jobs, started).await;
    if jobs.is_empty() {
        return Some(slot);
    }
    let span = telemetry::batch_span(registration.kind, slot.queue().name(), jobs.len());
    let abort = CancellationToken::new();
    let call = match handler.call {
        BatchCall::Plain(handle) => tokio::spawn(plain(handle, jobs.clone(), slot).instrument(span)),
        BatchCall::Transactional(call) => {
            let run =
                BatchTransaction { shared: shared.clone(), registration: *registration, call, abort: abort.clone() };
            tokio::spawn(run.run(jobs.clone(), slot).instrument(span))
        }
    };
    let Called { ends, slot } = ended(executor, registration, &jobs, call, &abort).await;
    let not_begun = ends.iter().find_map(|ended| match ended {
        Ended::Transacted(Transacted::NotBegun(problem)) => Some(problem),
        _ => None,
    });
    if let Some(problem) = not_begun {
        executor.wait_for_connections(problem).await;
    }
    conclude(executor, registration, jobs, ends, started.elapsed()).await;
    slot
}

/// Calls a handler that takes no connection.
async fn plain(
    handle: fn(Vec<JobContext>) -> BoxFuture<'static, BatchAnswer>,
    jobs: Vec<JobContext>,
    slot: Slot,
) -> Called {
    let handled = handle(jobs).await.unwrap_or_else(FailedBatch::of_each);
    Called { ends: handled.into_iter().map(Ended::Handled).collect(), slot: Some(slot) }
}

/// Waits until the call or the attempts have ended.
async fn ended(
    executor: &Executor,
    registration: &Registration,
    jobs: &[JobContext],
    mut call: JoinHandle<Called>,
    abort: &CancellationToken,
) -> Called {
    let over = tokio::select! {
        biased;
        joined = &mut call => return joined.unwrap_or_else(|error| Called {
            ends: jobs.iter().map(|_| without_result(registration, &error)).collect(),
            slot: None,
        }),
        over = over(&executor.shared, registration, jobs) => over,
    };
    jobs.iter().for_each(|ctx| ctx.stop().ask());
    match registration.connection {
        // The future is never dropped before its end, because the storage must end the transaction that it owns.
        Some(_) => abort.cancel(),
        None => call.abort(),
    }
    let stopped = tokio::time::timeout(attempt::stop_time(&over.of_job()), call).await;
    if stopped.is_err() {
        jobs.iter().take(1).for_each(|ctx| attempt::say_that_it_continues(&executor.shared, ctx));
    }
    let is_committed = |ended: &Ended| matches!(ended, Ended::Transacted(Transacted::Committed(_)));
    let slot = match stopped {
        // A commit that succeeded meanwhile counts.
        Ok(Ok(called)) if called.ends.iter().any(is_committed) => return called,
        Ok(Ok(called)) => called.slot,
        _ => None,
    };
    let end = |ctx: &JobContext| if ctx.stop().is_lost() { Ended::Lost } else { over.of_job() };
    Called { ends: jobs.iter().map(end).collect(), slot }
}

/// For a call that ended without a result: the worker's own code panicked, or the runtime shuts down. After a panic the
/// leases show whether a transaction was committed.
fn without_result(registration: &Registration, error: &JoinError) -> Ended {
    match error.is_panic() && registration.connection.is_some() {
        true => Ended::Transacted(Transacted::Unknown(StorageError::Unavailable(error.to_string().into()))),
        false => Ended::GivenUp,
    }
}

/// Checks which jobs may start, and calls the layers' `before`. Returns the jobs that continue.
async fn begin(
    executor: &Executor,
    registration: &Registration,
    jobs: Vec<JobContext>,
    started: Instant,
) -> Vec<JobContext> {
    let mut admitted = Vec::with_capacity(jobs.len());
    for ctx in jobs {
        if let Err(conclusion) = executor.may_start(&ctx) {
            executor.report(ctx, conclusion, "start", Duration::ZERO).await;
            continue;
        }
        ctx.start(started);
        let ended = match executor.shared.settings.layers.is_empty() {
            true => None,
            false => layers::before(&executor.shared, registration, &ctx).await,
        };
        match ended {
            Some(ended) => conclude(executor, registration, [ctx], [ended], started.elapsed()).await,
            None => admitted.push(ctx),
        }
    }
    admitted
}

async fn conclude(
    executor: &Executor,
    registration: &Registration,
    jobs: impl IntoIterator<Item = JobContext>,
    ends: impl IntoIterator<Item = Ended>,
    ran: Duration,
) {
    for (ctx, ended) in jobs.into_iter().zip(ends) {
        let span = telemetry::job_span(ctx.claimed());
        executor.conclude(registration, ctx, ended, ran).instrument(span).await;
    }
}

/// Why a batch must end before its handler has returned.
#[derive(Clone, Copy)]
enum Over {
    TimedOut(Duration),
    GivenUp,
    AllLost,
}

impl Over {
    /// How the attempt of each job ends.
    fn of_job(self) -> Ended {
        match self {
            Self::TimedOut(limit) => Ended::TimedOut(limit),
            Self::GivenUp => Ended::GivenUp,
            Self::AllLost => Ended::Lost,
        }
    }
}

/// Becomes ready when the batch must end. If only some leases are lost, the others continue.
async fn over(shared: &Shared, registration: &Registration, jobs: &[JobContext]) -> Over {
    let mut lost = 0;
    loop {
        let Some(ctx) = jobs.get(lost) else { return Over::AllLost };
        match attempt::over(shared, registration, ctx).await {
            Ended::TimedOut(limit) => return Over::TimedOut(limit),
            Ended::GivenUp => return Over::GivenUp,
            // All attempts have begun at the same time, so the next one has the same limit.
            _ => lost += 1,
        }
    }
}
