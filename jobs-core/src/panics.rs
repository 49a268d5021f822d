//! Turns a handler's panic into an error with its message and its location.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

use futures_util::FutureExt as _;

use crate::backtraces;
use crate::error::{FailureKind, JobError};
use crate::outcome::Handled;

thread_local! {
    static PANIC: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// What the hook has stored about the newest panic of a thread.
struct Panic {
    place: Option<String>,
    backtrace: Option<Backtrace>,
}

/// Only a panic hook gets the location. Our hook stores it and then calls the hook that was installed before.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANIC.set(Some(Panic { place: info.location().map(ToString::to_string), backtrace: backtraces::here() }));
            previous(info);
        }));
    });
}

/// Runs a handler's future; a panic becomes an error.
pub(crate) async fn caught<T>(handler: impl Future<Output = Result<T, JobError>>) -> Result<T, JobError> {
    caught_future(handler).await.unwrap_or_else(Err)
}

/// Runs a future; a panic becomes an error.
pub(crate) async fn caught_future<T>(future: impl Future<Output = T>) -> Result<T, JobError> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(described)
}

/// Runs the loading of a handler's rows; a panic becomes the error of the attempt.
pub(crate) async fn caught_loading<T>(load: impl Future<Output = Result<T, Handled>>) -> Result<T, Handled> {
    AssertUnwindSafe(load).catch_unwind().await.unwrap_or_else(|payload| Err(Err(described(payload))))
}

/// Runs a blocking handler; a panic becomes an error.
pub(crate) fn caught_blocking<T>(handler: impl FnOnce() -> Result<T, JobError>) -> Result<T, JobError> {
    caught_call(handler).unwrap_or_else(Err)
}

/// Calls a function that may panic. A panic becomes an error.
pub(crate) fn caught_call<T>(call: impl FnOnce() -> T) -> Result<T, JobError> {
    std::panic::catch_unwind(AssertUnwindSafe(call)).map_err(described)
}

/// The error for a panic's payload. Only the thread that panicked knows the location.
pub(crate) fn described(payload: Box<dyn Any + Send>) -> JobError {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text");
    let Panic { place, backtrace } = PANIC.take().unwrap_or(Panic { place: None, backtrace: None });
    let at = place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
    let error = JobError::of_kind(FailureKind::Panic, anyhow::Error::msg(format!("panicked{at}: {message}")))
        .with_place(place, backtrace.as_ref().and_then(backtraces::of));
    // The payload may panic when it is dropped, and so may the payload of that panic. Outside of a handler, such a
    // panic would end the runner and leave its job running for ever.
    std::mem::forget(std::panic::catch_unwind(AssertUnwindSafe(|| drop(payload))));
    error
}
