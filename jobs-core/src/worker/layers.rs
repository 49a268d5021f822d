//! Calls the layers of a worker, within the bounds of the attempt. A worker without layers calls nothing here.
//!
//! `before` runs where the handler runs: on the runner's task, or on the thread of a plain function. `after` and
//! `error` run when the result is known. Unless the handler's own transaction has finished the job, that is before the
//! result is written. So they do not overlap with another attempt of the job, and for this reason they have a time
//! limit.

use std::ops::ControlFlow;
use std::time::Duration;

use super::attempt::{self, Ended};
use super::conclusion::AttemptResult;
use super::shared::Shared;
use crate::context::JobContext;
use crate::decision;
use crate::handler::Registration;
use crate::outcome::Handled;
use crate::panics;

/// How long `after` or `error` of one layer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Calls `before` of the layers. Returns how the attempt ended, if its handler must not be called.
pub(super) async fn before(shared: &Shared, registration: &Registration, ctx: &JobContext) -> Option<Ended> {
    let mut before = Box::pin(shared.settings.layers.before(ctx));
    let ended = tokio::select! {
        biased;
        flow = &mut before => match flow {
            ControlFlow::Continue(()) => return None,
            ControlFlow::Break(handled) => return Some(Ended::Handled(handled)),
        },
        ended = attempt::over(shared, registration, ctx) => ended,
    };
    ctx.stop().ask();
    // The values that the layer holds may panic when they are dropped.
    let _ = panics::caught_call(|| drop(before));
    Some(ended)
}

/// Calls `after` or `error` of the layers with the result of the attempt. Returns the result.
pub(super) async fn observe(
    shared: &Shared,
    registration: &Registration,
    ctx: &JobContext,
    result: AttemptResult,
) -> AttemptResult {
    match result {
        AttemptResult::Committed(transition) => {
            if let Some(handled) = transition.handled() {
                call(shared, ctx, &handled).await;
            }
            AttemptResult::Committed(transition)
        }
        AttemptResult::Handled { handled, may_be_gone } => {
            let handled = decision::without_secrets(ctx, registration, handled);
            call(shared, ctx, &handled).await;
            AttemptResult::Handled { handled, may_be_gone }
        }
        unobserved => unobserved,
    }
}

/// A worker that ends does not wait for the calls.
async fn call(shared: &Shared, ctx: &JobContext, handled: &Handled) {
    let mut observe = Box::pin(shared.settings.layers.observe(ctx, handled, Some(LIMIT)));
    tokio::select! {
        biased;
        () = &mut observe => {}
        () = shared.phases.now().cancelled() => {}
    }
    let _ = panics::caught_call(|| drop(observe));
}
