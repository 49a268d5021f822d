//! Calls a handler with the layers of a test around it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use diesel_jobs_core::testing::calls;
use diesel_jobs_core::{Handled, JobContext, Layers, Registration};
use futures_util::future::BoxFuture;

use super::store::TestConnection;
use super::stuck;

/// Calls `before` of the layers and the handler, together for at most `limit`. Then calls `after` or `error` of the
/// layers, again for at most `limit`. If a call does not end in time, returns a message as the error.
pub(super) async fn call<C: TestConnection>(
    conn: &mut C,
    registration: &Registration,
    ctx: JobContext,
    layers: &Layers,
    limit: Duration,
) -> Result<Handled, String> {
    let handled = crashing(conn, registration, ctx.clone(), layers, limit).await?;
    if layers.is_empty() {
        return Ok(handled);
    }
    let handled = calls::handled_without_secrets(&ctx, registration, handled);
    let (of_layers, of_job) = (layers.clone(), ctx.clone());
    let observe = Box::pin(async move {
        of_layers.observe(&of_job, &handled, None).await;
        handled
    });
    within(conn, &ctx, "`after` or `error`", observe, limit).await
}

/// Calls `before` of the layers and the handler, as a worker does that then dies.
pub(super) async fn crashing<C: TestConnection>(
    conn: &mut C,
    registration: &Registration,
    ctx: JobContext,
    layers: &Layers,
    limit: Duration,
) -> Result<Handled, String> {
    if layers.is_empty() {
        return stuck::call(conn, registration, ctx, limit).await;
    }
    let begun = Instant::now();
    let (of_layers, of_job) = (layers.clone(), ctx.clone());
    let before = Box::pin(async move { of_layers.before(&of_job).await });
    match within(conn, &ctx, "`before`", before, limit).await? {
        ControlFlow::Continue(()) => stuck::call(conn, registration, ctx, limit.saturating_sub(begun.elapsed())).await,
        ControlFlow::Break(handled) => Ok(handled),
    }
}

async fn within<C: TestConnection, T: Send + 'static>(
    conn: &mut C,
    ctx: &JobContext,
    what: &str,
    hook: BoxFuture<'static, T>,
    limit: Duration,
) -> Result<T, String> {
    let problem = |problem: String| {
        format!(
            "job {} of kind `{}`: {what} of its layers {problem}. `.time_limit(..)` sets another limit.",
            ctx.id(),
            ctx.kind()
        )
    };
    match conn.hook(hook, limit).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(problem(format!("could not be called: {error}"))),
        Err(calls::Expired) => Err(problem(format!("has not ended after {limit:?}"))),
    }
}
