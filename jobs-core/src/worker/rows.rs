//! Handlers that take rows and no connection. The worker loads the rows, gives the connection back, and then calls the
//! handler. The attempt's time limit covers both. A database that fails meanwhile consumes no attempt.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::attempt::{self, Ended};
use super::conflicts;
use super::queue::Slot;
use super::shared::Shared;
use crate::context::JobContext;
use crate::handler::{LoadedHandler, Registration, RowHandler};
use crate::handler_threads;
use crate::panics;
use crate::storage::{Loaded, Loading, Transacted};

/// Loads the rows and runs the handler, until one of them or the attempt ends. Returns the slot, unless the handler
/// still occupies it.
pub(super) async fn run(
    shared: &Shared,
    registration: &Registration,
    handler: &'static RowHandler,
    ctx: &JobContext,
    slot: Slot,
) -> (Ended, Option<Slot>) {
    match load(shared, registration, handler, ctx).await {
        Ok(LoadedHandler::Async(handler)) => {
            attempt::on_the_runtime(shared, registration, ctx, slot, |_| handler).await
        }
        Ok(LoadedHandler::Blocking(handler)) => {
            let span = Span::current();
            let call = move || span.in_scope(|| panics::caught_blocking(handler));
            let call = handler_threads::spawn(move || (Ended::Handled(call()), Some(slot)));
            let abort = call.abort_handle();
            let handler = async { call.await.unwrap_or_else(|error| (attempt::call_without_result(error), None)) };
            attempt::beside_this_task(shared, registration, ctx, handler, abort).await
        }
        Err(ended) => (ended, Some(slot)),
    }
}

async fn load(
    shared: &Shared,
    registration: &Registration,
    handler: &'static RowHandler,
    ctx: &JobContext,
) -> Result<LoadedHandler, Ended> {
    let (abort, ctx_of_body) = (CancellationToken::new(), ctx.clone());
    let loading = Loading {
        lease: ctx.lease(),
        body: Arc::new(move |connection| {
            let ctx = ctx_of_body.clone();
            Box::pin(async move { panics::caught_loading((handler.load)(connection, ctx)).await })
        }),
        rows: handler.rows,
        abort: abort.clone(),
    };
    let storage = shared.storage.clone();
    let mut loaded = tokio::spawn(async move { conflicts::load(&*storage, loading).await }.in_current_span());
    let ended = tokio::select! {
        biased;
        loaded = &mut loaded => return match loaded {
            Ok(Loaded::Handler(handler)) => Ok(handler),
            Ok(Loaded::Ended(handled)) => Err(Ended::Handled(handled)),
            // After a conflict the attempt runs again, or fails after its last run.
            Ok(Loaded::Conflict { error, .. }) => Err(Ended::Handled(Err(error))),
            Ok(Loaded::Aborted) => Err(Ended::GivenUp),
            Ok(Loaded::Interrupted(interruption)) => Err(Ended::Transacted(Transacted::Interrupted(interruption))),
            Ok(Loaded::NotLoaded(problem)) => Err(Ended::Transacted(Transacted::NotBegun(problem))),
            Err(error) => Err(attempt::handler_without_result(error)),
        },
        ended = attempt::over(shared, registration, ctx) => ended,
    };
    ctx.stop().ask();
    // The future is never dropped before its end, because the storage must close the connection that it has.
    abort.cancel();
    let _ = tokio::time::timeout(attempt::stop_time(&ended), loaded).await;
    Err(ended)
}
