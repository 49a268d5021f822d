//! A handler's panic as an error, with its message and where it happened.

use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::Once;

use futures_util::FutureExt as _;

use crate::error::{FailureKind, JobError};
use crate::outcome::Handled;

thread_local! {
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The location is known only to the panic hook. Ours remembers it and goes on to the one that was there before.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            LOCATION.set(info.location().map(ToString::to_string));
            previous(info);
        }));
    });
}

/// Runs a handler's future; a panic becomes an error.
pub(crate) async fn caught(handler: impl Future<Output = Handled>) -> Handled {
    AssertUnwindSafe(handler).catch_unwind().await.unwrap_or_else(|payload| Err(described(payload)))
}

/// Runs a blocking handler; a panic becomes an error.
pub(crate) fn caught_blocking(handler: impl FnOnce() -> Handled) -> Handled {
    caught_call(handler).unwrap_or_else(Err)
}

/// Calls what may panic.
pub(crate) fn caught_call<T>(call: impl FnOnce() -> T) -> Result<T, JobError> {
    std::panic::catch_unwind(AssertUnwindSafe(call)).map_err(described)
}

/// The panic behind a payload, caught on the thread that panicked.
pub(crate) fn described(payload: Box<dyn Any + Send>) -> JobError {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text");
    let place = LOCATION.take().map(|at| format!(" at {at}")).unwrap_or_default();
    let error = JobError::of_kind(FailureKind::Panic, anyhow::Error::msg(format!("panicked{place}: {message}")));
    // What was thrown may panic when it is dropped, and throw something that does, too. Outside of any handler that would end
    // the runner, and leave its job running for ever.
    std::mem::forget(std::panic::catch_unwind(AssertUnwindSafe(|| drop(payload))));
    error
}
