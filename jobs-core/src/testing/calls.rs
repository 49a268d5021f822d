//! How connections call handlers that do not take the connection, and how panics become errors.

use futures_util::future::BoxFuture;

use crate::context::JobContext;
use crate::error::JobError;
use crate::outcome::{Attempt, Handled, Transition};
use crate::panics;

/// Makes errors of panics name their place.
pub fn install_hook() {
    panics::install_hook();
}

/// What becomes of a job, as the worker decides it.
pub fn decided(attempt: Attempt<'_>, handled: Handled, jitter: f64) -> Transition {
    panics::decided(attempt, handled, jitter)
}

/// Runs a handler's future here. A panic is an error.
pub async fn caught(handler: impl Future<Output = Handled>) -> Handled {
    panics::caught(handler).await
}

/// Runs a plain handler here. A panic is an error.
pub fn caught_blocking(handler: impl FnOnce() -> Handled) -> Handled {
    panics::caught_blocking(handler)
}

/// Runs a plain handler on the blocking pool.
pub async fn on_the_pool(handler: fn(JobContext) -> Handled, ctx: JobContext) -> Handled {
    let handled = tokio::task::spawn_blocking(move || panics::caught_blocking(|| handler(ctx)));
    handled.await.unwrap_or_else(|error| Err(JobError::new(error)))
}

/// Runs an async handler on a thread with a runtime of its own, and waits for it. The caller may be on a runtime.
pub fn on_a_thread(handler: fn(JobContext) -> BoxFuture<'static, Handled>, ctx: JobContext) -> Handled {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(JobError::new)?;
        runtime.block_on(panics::caught(async move { handler(ctx).await }))
    };
    std::thread::spawn(run).join().unwrap_or_else(|payload| Err(panics::described(payload)))
}
