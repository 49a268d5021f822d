//! Time limits for handlers in tests. They are measured by a thread, because a test may have paused the clock of its
//! runtime.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

/// The handler has not ended within its time limit.
#[derive(Debug)]
pub struct Expired;

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is called when a time is over. The key is the time, and a number for those with the same one.
type Calls = BTreeMap<(Instant, u64), Box<dyn FnOnce() + Send>>;

/// All limits of this process. One thread watches them: to start a thread takes longer than most handlers.
struct Watch {
    calls: Mutex<Calls>,
    changed: Condvar,
    number: AtomicU64,
}

static WATCH: LazyLock<&'static Watch> = LazyLock::new(|| {
    let watch: &Watch =
        Box::leak(Box::new(Watch { calls: Mutex::default(), changed: Condvar::new(), number: AtomicU64::new(0) }));
    // Without a thread there are no limits.
    let _ = std::thread::Builder::new().name("jobs-test-limits".to_owned()).spawn(|| watch.run());
    watch
});

impl Watch {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut calls = self.calls();
        loop {
            let now = Instant::now();
            calls = match calls.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let call = first.remove();
                    drop(calls);
                    call();
                    self.calls()
                }
                Some(first) => {
                    let left = first.key().0 - now;
                    self.changed.wait_timeout(calls, left).map_or_else(|error| error.into_inner().0, |(calls, _)| calls)
                }
                None => self.changed.wait(calls).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// A limit that is watched until this is dropped.
struct Watched((Instant, u64));

impl Drop for Watched {
    fn drop(&mut self) {
        // The call is dropped without the lock.
        let call = WATCH.calls().remove(&self.0);
        drop(call);
    }
}

/// Calls `then` when this time is over, unless the value is dropped before.
fn after(limit: Duration, then: impl FnOnce() + Send + 'static) -> Watched {
    let now = Instant::now();
    let key = (now.checked_add(limit).unwrap_or(now + FOREVER), WATCH.number.fetch_add(1, Ordering::Relaxed));
    let mut calls = WATCH.calls();
    calls.insert(key, Box::new(then));
    if calls.first_key_value().is_some_and(|(first, _)| *first == key) {
        WATCH.changed.notify_one();
    }
    Watched(key)
}

/// Runs a future for at most this time. The future is not dropped here, so that the caller can find out what it waits
/// for.
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

/// Prints a message when this time is over, unless the value is dropped before.
#[expect(clippy::print_stderr, reason = "a test's output is the place for what it waits for")]
pub fn print_after(limit: Duration, message: impl FnOnce() -> String + Send + 'static) -> impl Drop {
    after(limit, move || eprintln!("{}", message()))
}

/// Calls a function that cannot be given up, because it borrows the connection of the test. If it does not end within
/// this time, the message is printed.
pub fn reported<T>(limit: Duration, message: impl FnOnce() -> String + Send + 'static, call: impl FnOnce() -> T) -> T {
    let _watched = print_after(limit, message);
    call()
}
