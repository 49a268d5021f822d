//! The attempt: calls the handler on the runtime or inside a transaction. Ends it when its time limit, its lease or the
//! worker's grace period is over. A plain async handler runs on the runner's own task. A handler with its own time
//! limit gets a separate task, because the attempt must end even if the handler never yields. Plain functions run on
//! threads ([`threads`](super::threads)).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::conflicts;
use super::queue::Slot;
use super::shared::Shared;
use crate::context::JobContext;
use crate::decision::decided;
use crate::error::JobError;
use crate::handler::{Handler, Registration};
use crate::handler_threads::NoResult;
use crate::outcome::{Handled, Outcome, Transition};
use crate::panics;
use crate::storage::{Body, Transacted, Transaction};
use crate::storage_error::StorageError;
use crate::telemetry;

/// How long a handler may continue after it was asked to stop. Then the attempt ends without it.
const STOP_TIME: Duration = Duration::from_secs(1);
/// The same if the worker itself is about to end. It is shorter, so that the worker releases its jobs within one second
/// after the grace period.
const STOP_TIME_AT_SHUTDOWN: Duration = Duration::from_millis(250);

/// How an attempt ended, as far as this process knows.
pub(super) enum Ended {
    Handled(Handled),
    Transacted(Transacted<Transition>),
    TimedOut(Duration),
    /// The worker stops and releases the job.
    GivenUp,
    /// The lease is lost, so nothing may be written.
    Lost,
}

/// Runs the handler until the handler or the attempt ends. Returns the slot, unless the handler still occupies it.
pub(super) async fn run(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
    slot: Slot,
) -> (Ended, Option<Slot>) {
    match registration.handler {
        Handler::Async(handle) => on_the_runtime(shared, registration, ctx, slot, handle).await,
        Handler::Blocking(_) => unreachable!("a runner has a thread run plain functions"),
        Handler::WithRows(_) => unreachable!("the executor has their rows loaded first"),
        Handler::Batch(_) => unreachable!("a runner has their batch run"),
        Handler::AsyncTransactional(handle) => {
            let (decided, ctx_of_body) = (decision(shared, registration, ctx), ctx.clone());
            let body = Body::Async(Arc::new(move |connection| {
                let (decided, ctx) = (decided.clone(), ctx_of_body.clone());
                Box::pin(
                    async move { panics::caught(async move { handle(connection, ctx).await }).await.map(&decided) },
                )
            }));
            in_a_transaction(shared, registration, ctx, Arc::new(slot), body).await
        }
        Handler::BlockingTransactional(handle) => {
            let (decided, ctx_of_body) = (decision(shared, registration, ctx), ctx.clone());
            let slot = Arc::new(slot);
            let slot_of_body = slot.clone();
            let body = Body::Blocking(Arc::new(move |connection| {
                // The handler may outlive its transaction. It keeps the slot until it has ended.
                let _slot = &slot_of_body;
                panics::caught_blocking(|| handle(connection, ctx_of_body.clone())).map(&decided)
            }));
            in_a_transaction(shared, registration, ctx, slot, body).await
        }
    }
}

/// Runs an async handler.
pub(super) async fn on_the_runtime(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
    slot: Slot,
    handle: impl FnOnce(JobContext) -> BoxFuture<'static, Handled> + Send + 'static,
) -> (Ended, Option<Slot>) {
    if registration.options.timeout.is_none() {
        return (on_this_task(shared, registration, ctx, handle).await, Some(slot));
    }
    let ctx_of_handler = ctx.clone();
    let handler = async move {
        let handled = match panics::caught_call(|| handle(ctx_of_handler)) {
            Ok(handler) => panics::caught(handler).await,
            Err(error) => Err(error),
        };
        (Ended::Handled(handled), Some(slot))
    };
    let task = tokio::spawn(handler.in_current_span());
    let abort = task.abort_handle();
    let handler = async { task.await.unwrap_or_else(|error| (handler_without_result(error), None)) };
    beside_this_task(shared, registration, ctx, handler, move || abort.abort()).await
}

/// For handlers without their own time limit. It spawns no task, because for a short job a task would cost more than
/// the job itself. The worker's limit can end a handler only when the handler yields.
async fn on_this_task(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
    handle: impl FnOnce(JobContext) -> BoxFuture<'static, Handled>,
) -> Ended {
    let mut handler = match panics::caught_call(|| handle(ctx.clone())) {
        Ok(handler) => handler,
        Err(error) => return Ended::Handled(Err(error)),
    };
    let ended = tokio::select! {
        biased;
        handled = panics::caught(&mut handler) => Ended::Handled(handled),
        ended = over(shared, registration, ctx) => ended,
    };
    ctx.stop().ask();
    // The values that the handler holds may panic when they are dropped.
    let _ = panics::caught_call(|| drop(handler));
    ended
}

/// For handlers with their own time limit, which have their own task, and for plain functions whose rows were loaded,
/// which have a thread. Such an attempt ends at the limit even if the handler never yields.
pub(super) async fn beside_this_task(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
    handler: impl Future<Output = (Ended, Option<Slot>)>,
    abort: impl FnOnce(),
) -> (Ended, Option<Slot>) {
    let mut handler = std::pin::pin!(handler);
    let ended = tokio::select! {
        biased;
        done = &mut handler => return done,
        ended = over(shared, registration, ctx) => ended,
    };
    ctx.stop().ask();
    abort();
    match tokio::time::timeout(stop_time(&ended), handler).await {
        Ok((_, slot)) => (ended, slot),
        Err(_) => {
            say_that_it_continues(shared, ctx);
            (ended, None)
        }
    }
}

async fn in_a_transaction(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
    slot: Arc<Slot>,
    body: Body,
) -> (Ended, Option<Slot>) {
    let Some(connection) = registration.connection else {
        drop(body);
        return (Ended::Handled(Err(JobError::msg("a transactional job without a connection"))), Arc::into_inner(slot));
    };
    let abort = CancellationToken::new();
    let jobs = Arc::from([ctx.clone()]);
    let transaction = Transaction { connection: connection().id, jobs, body, abort: abort.clone() };
    let storage = shared.storage.clone();
    let transacted = async move {
        let transacted = conflicts::transact(&*storage, transaction).await.of_one();
        // `into_inner` returns `None` while a blocking handler that still runs holds the slot.
        (Ended::Transacted(transacted), Arc::into_inner(slot))
    };
    let mut transacted = tokio::spawn(transacted.in_current_span());
    let ended = tokio::select! {
        biased;
        joined = &mut transacted => return joined.unwrap_or_else(|error| (transaction_without_result(error), None)),
        ended = over(shared, registration, ctx) => ended,
    };
    ctx.stop().ask();
    // The future is never dropped before its end, because the storage must end the transaction that it owns.
    abort.cancel();
    let (ended, slot) = match tokio::time::timeout(stop_time(&ended), transacted).await {
        // A commit that succeeded meanwhile counts.
        Ok(Ok((committed @ Ended::Transacted(Transacted::Committed(_)), slot))) => (committed, slot),
        Ok(Ok((_, slot))) => (ended, slot),
        _ => (ended, None),
    };
    if slot.is_none() {
        say_that_it_continues(shared, ctx);
    }
    (ended, slot)
}

/// Logs that the attempt has ended, but its handler has not.
pub(super) fn say_that_it_continues(shared: &Shared, ctx: &JobContext) {
    match shared.phases.stopping().is_cancelled() || shared.phases.now().is_cancelled() {
        true => telemetry::handler_left(ctx.claimed()),
        false => telemetry::slot_kept(ctx.claimed()),
    }
}

/// How long a handler may continue after the end of its attempt was decided.
pub(super) fn stop_time(ended: &Ended) -> Duration {
    if matches!(ended, Ended::GivenUp) { STOP_TIME_AT_SHUTDOWN } else { STOP_TIME }
}

/// The transition that follows from the outcome of a transactional handler.
fn decision(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
) -> impl Fn(Outcome) -> Vec<Transition> + Clone + Send + Sync + use<> {
    let (ctx, registration, live) = (ctx.clone(), *registration, shared.live.clone());
    move |outcome| vec![decided(&ctx, &registration, live.kept(&registration), Ok(outcome), 0.0)]
}

/// Becomes ready when the attempt must end without its handler. Returns the reason.
pub(super) async fn over(shared: &Shared, registration: &Registration, ctx: &JobContext) -> Ended {
    let time = async {
        match registration.options.timeout.or(shared.settings.timeout) {
            Some(limit) => {
                tokio::select! {
                    () = tokio::time::sleep(limit.saturating_sub(ctx.running().unwrap_or_default())) => {}
                    () = shared.phases.time_is_up().cancelled() => {}
                }
                limit
            }
            None => std::future::pending().await,
        }
    };
    let lost = async {
        ctx.cancelled().await;
        if !ctx.stop().is_lost() {
            // The worker asks its handlers to stop and gives them time, so the attempt continues.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        limit = time => Ended::TimedOut(limit),
        () = shared.phases.now().cancelled() => Ended::GivenUp,
        () = lost => Ended::Lost,
    }
}

/// For a transaction that ended without a result: the worker's own code panicked, or the runtime shuts down. After a
/// panic the lease shows whether the transaction was committed.
fn transaction_without_result(error: JoinError) -> Ended {
    match error.try_into_panic() {
        Ok(payload) => {
            let problem = StorageError::Unavailable(panics::described(payload).to_string().into());
            Ended::Transacted(Transacted::Unknown(problem))
        }
        Err(_) => Ended::GivenUp,
    }
}

/// For a call on a handler's thread that ended without a result: our own code panicked, or the call was aborted.
pub(super) fn call_without_result(error: NoResult) -> Ended {
    match error {
        NoResult::Panicked(payload) => Ended::Handled(Err(panics::described(payload))),
        NoResult::NotRun => Ended::GivenUp,
    }
}

/// For a handler that ended without a result: a panic was not caught, or the runtime shuts down.
pub(super) fn handler_without_result(error: JoinError) -> Ended {
    match error.try_into_panic() {
        Ok(payload) => Ended::Handled(Err(panics::described(payload))),
        Err(_) => Ended::GivenUp,
    }
}
