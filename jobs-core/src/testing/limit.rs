//! Time limits for handlers in tests. They are measured by a thread, because a test may have paused the clock of its runtime.

use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

/// The handler has not ended within its time limit.
#[derive(Debug)]
pub struct Expired;

/// Ends when this time is over, unless it is dropped before.
fn after(limit: Duration, then: impl FnOnce() + Send + 'static) -> mpsc::Sender<()> {
    let (ended, watched) = mpsc::channel::<()>();
    let watch = move || {
        if watched.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            then();
        }
    };
    // Without a thread there is no limit.
    let _ = std::thread::Builder::new().name("jobs-test-limit".to_owned()).spawn(watch);
    ended
}

/// Runs a future for at most this time. The future is not dropped here, so that the caller can find out what it waits for.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T> + Unpin) -> Result<T, Expired> {
    let (is_over, over) = oneshot::channel();
    let _watch = after(limit, move || {
        let _ = is_over.send(());
    });
    let never = async {
        if over.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    match select(future, pin!(never)).await {
        Either::Left((result, _)) => Ok(result),
        Either::Right(_) => Err(Expired),
    }
}

/// Calls a function that cannot be given up, because it borrows the connection of the test. If it does not end within this
/// time, the message is printed.
#[expect(clippy::print_stderr, reason = "a test's output is the place for what it waits for")]
pub fn reported<T>(limit: Duration, message: impl FnOnce() -> String + Send + 'static, call: impl FnOnce() -> T) -> T {
    let _watch = after(limit, move || eprintln!("{}", message()));
    call()
}
