//! Calls of handlers in tests of applications, with panics converted to errors.

use std::cell::RefCell;
use std::sync::mpsc;

use futures_util::future::BoxFuture;

use crate::context::JobContext;
use crate::error::JobError;
use crate::handler::Registration;
use crate::outcome::{Handled, Retention, Transition};
use crate::{decision, panics};

/// Installs the panic hook, so that the error of a panic contains its location.
pub fn install_hook() {
    panics::install_hook();
}

/// Decides on the transition of a job, as a worker with default settings does.
pub fn decided(ctx: &JobContext, registration: &Registration, handled: Handled, jitter: f64) -> Transition {
    decision::decided(ctx, registration, Retention::default(), handled, jitter)
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

/// Runs an async handler on a thread with a runtime of its own, and waits for it. The caller may be on a runtime. Each thread that
/// calls this keeps its thread and runtime for the next handler, because to create them takes longer than most handlers.
pub fn on_a_thread(handler: fn(JobContext) -> BoxFuture<'static, Handled>, ctx: JobContext) -> Handled {
    let (answer, answered) = mpsc::channel();
    let work: Work = Box::new(move |runtime| {
        let handled = runtime.block_on(panics::caught(async move { handler(ctx).await }));
        // The caller waits for it.
        let _ = answer.send(handled);
    });
    RUNTIME_THREAD.with_borrow_mut(|thread| {
        let sender = match thread {
            Some(sender) => sender,
            None => thread.insert(start_runtime_thread().map_err(JobError::new)?),
        };
        sender.send(work).map_err(|_| thread_ended())?;
        answered.recv().map_err(|_| thread_ended())?
    })
}

type Work = Box<dyn FnOnce(&tokio::runtime::Runtime) + Send>;

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
