//! Calls of handlers in tests of applications, with panics converted to errors.

use std::cell::RefCell;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::context::JobContext;
use crate::error::JobError;
use crate::handler::Registration;
use crate::outcome::{Handled, Retention, Transition};
use crate::{decision, panics};

pub use super::limit::{Expired, print_after, reported, within};

/// Installs the panic hook, so that the error of a panic contains its location.
pub fn install_hook() {
    panics::install_hook();
}

/// Decides on the transition of a job, as a worker with default settings does.
pub fn decided(ctx: &JobContext, registration: &Registration, handled: Handled, jitter: f64) -> Transition {
    decision::decided(ctx, registration, Retention::default().kept(registration.options.retain), handled, jitter)
}

/// Returns the text of an error without the values of secret arguments.
pub fn without_secrets(ctx: &JobContext, secrets: &[&str], mut error: String) -> String {
    crate::secrets::remove_from(&mut error, &ctx.claimed().args, secrets);
    error
}

/// Removes the values of secret arguments from what a handler returned.
pub fn handled_without_secrets(ctx: &JobContext, registration: &Registration, handled: Handled) -> Handled {
    decision::without_secrets(ctx, registration, handled)
}

/// Runs a handler's future here. A panic is an error.
pub async fn caught<T>(handler: impl Future<Output = Result<T, JobError>>) -> Result<T, JobError> {
    panics::caught(handler).await
}

/// Runs a handler's future here, for at most this time. A panic is an error.
pub async fn caught_within(limit: Duration, handler: impl Future<Output = Handled>) -> Result<Handled, Expired> {
    within(limit, Box::pin(panics::caught(handler))).await
}

/// Runs a plain handler here. A panic is an error.
pub fn caught_blocking<T>(handler: impl FnOnce() -> Result<T, JobError>) -> Result<T, JobError> {
    panics::caught_blocking(handler)
}

/// Runs a plain handler on a thread of its own, as a worker does, for at most this time. If the handler does not end,
/// its thread continues.
pub async fn on_a_thread_async(
    handler: impl FnOnce(JobContext) -> Handled + Send + 'static,
    ctx: JobContext,
    limit: Duration,
) -> Result<Handled, Expired> {
    let (answer, answered) = oneshot::channel();
    let runtime = tokio::runtime::Handle::try_current();
    let run = move || {
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        // The caller may have given up.
        let _ = answer.send(panics::caught_blocking(|| handler(ctx)));
    };
    if let Err(error) = std::thread::Builder::new().name("jobs-test-handler".to_owned()).spawn(run) {
        return Ok(Err(JobError::new(error)));
    }
    Ok(within(limit, answered).await?.unwrap_or_else(|_| Err(thread_ended())))
}

/// Runs an async handler on a thread with a runtime of its own, and waits for it for at most this time. The caller may
/// be on a runtime. Each thread that calls this keeps its thread and runtime for the next handler, because to create
/// them takes longer than most handlers.
pub fn on_a_thread(
    handler: impl FnOnce(JobContext) -> BoxFuture<'static, Handled> + Send + 'static,
    ctx: JobContext,
    limit: Duration,
) -> Result<Handled, Expired> {
    let run = move |runtime: &Runtime| runtime.block_on(panics::caught(async move { handler(ctx).await }));
    Ok(on_the_kept_thread(run, limit)?.unwrap_or_else(Err))
}

/// Runs a hook of a layer on the thread of [`on_a_thread`]. Returns an error if there is no thread.
pub fn hook_on_a_thread<T: Send + 'static>(
    hook: BoxFuture<'static, T>,
    limit: Duration,
) -> Result<Result<T, JobError>, Expired> {
    on_the_kept_thread(move |runtime| runtime.block_on(hook), limit)
}

/// Runs a plain handler on the thread of [`on_a_thread`].
pub fn blocking_on_a_thread(
    handler: impl FnOnce(JobContext) -> Handled + Send + 'static,
    ctx: JobContext,
    limit: Duration,
) -> Result<Handled, Expired> {
    let runtime = tokio::runtime::Handle::try_current();
    let run = move |_: &Runtime| {
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        panics::caught_blocking(|| handler(ctx))
    };
    Ok(on_the_kept_thread(run, limit)?.unwrap_or_else(Err))
}

/// Returns an error if there is no thread.
fn on_the_kept_thread<T: Send + 'static>(
    call: impl FnOnce(&Runtime) -> T + Send + 'static,
    limit: Duration,
) -> Result<Result<T, JobError>, Expired> {
    let (answer, answered) = mpsc::channel();
    let work: Work = Box::new(move |runtime| {
        // The caller may have given up.
        let _ = answer.send(call(runtime));
    });
    RUNTIME_THREAD.with_borrow_mut(|thread| {
        let sender = match thread {
            Some(sender) => sender,
            None => match start_runtime_thread() {
                Ok(sender) => thread.insert(sender),
                Err(error) => return Ok(Err(JobError::new(error))),
            },
        };
        if sender.send(work).is_err() {
            return Ok(Err(thread_ended()));
        }
        match answered.recv_timeout(limit) {
            Ok(result) => Ok(Ok(result)),
            Err(RecvTimeoutError::Disconnected) => Ok(Err(thread_ended())),
            Err(RecvTimeoutError::Timeout) => {
                // The next handler gets another thread.
                *thread = None;
                Err(Expired)
            }
        }
    })
}

type Work = Box<dyn FnOnce(&Runtime) + Send>;

thread_local! {
    static RUNTIME_THREAD: RefCell<Option<mpsc::Sender<Work>>> = const { RefCell::new(None) };
}

/// The thread ends when the sender is dropped.
fn start_runtime_thread() -> std::io::Result<mpsc::Sender<Work>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, receiver) = mpsc::channel::<Work>();
    std::thread::Builder::new().name("jobs-test-handlers".to_owned()).spawn(move || {
        while let Ok(work) = receiver.recv() {
            work(&runtime);
        }
    })?;
    Ok(sender)
}

fn thread_ended() -> JobError {
    JobError::msg("the thread of the handlers has ended")
}
