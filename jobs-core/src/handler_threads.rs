//! The threads of handlers that block. They belong to the process, and nothing waits for their end: a handler that
//! never returns keeps its thread until the process ends, and does not keep the process. Tokio's blocking pool would
//! not do, because dropping a runtime waits for every function that runs there.
//!
//! A thread that has run a call takes the next one. The threads of a process are at most [`MOST`], and further calls
//! wait. So do those for which the operating system has refused a thread.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::telemetry::RateLimitedWarning;

/// The most threads, as many as Tokio's blocking pool has.
const MOST: usize = 512;
/// How long a thread without work waits for the next call before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The time after which a thread is asked for again that was refused.
const RETRY: Duration = Duration::from_secs(1);

/// A call that was handed to a thread. Dropping it does not stop a call that runs, and aborts one that waits.
#[derive(Debug)]
pub struct HandlerCall<T> {
    answer: oneshot::Receiver<thread::Result<T>>,
    call: Arc<Call>,
}

/// Why a call has no result. Internal, and exhaustive, so that no code of ours misses a variant.
#[derive(thiserror::Error)]
pub enum NoResult {
    /// It panicked, with this payload.
    #[error("the call on a handler's thread panicked")]
    Panicked(Box<dyn Any + Send>),
    /// It did not run, because it was [aborted](HandlerCall::abort_handle).
    #[error("no thread has run the call")]
    NotRun,
}

impl std::fmt::Debug for NoResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Calls this function on a thread, within the current runtime.
///
/// # Panics
///
/// If no runtime is current.
pub fn spawn<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> HandlerCall<T> {
    let (runtime, (sender, answer)) = (Handle::current(), oneshot::channel());
    let runtime_of_call = runtime.clone();
    let call = Arc::new(Call::new(move || {
        let _context = runtime_of_call.enter();
        // Nobody may wait for it any more.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(function)));
    }));
    THREADS.run(call.clone(), runtime);
    HandlerCall { answer, call }
}

impl<T> HandlerCall<T> {
    /// Returns a function that makes sure that the call does not start. A call that runs already continues.
    pub fn abort_handle(&self) -> impl FnOnce() + Send + use<T> {
        let call = self.call.clone();
        move || call.abort()
    }
}

impl<T> Drop for HandlerCall<T> {
    fn drop(&mut self) {
        self.call.abort();
    }
}

impl<T> Future for HandlerCall<T> {
    type Output = Result<T, NoResult>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(|answer| match answer {
            Ok(answer) => answer.map_err(NoResult::Panicked),
            Err(_) => Err(NoResult::NotRun),
        })
    }
}

type Function = Box<dyn FnOnce() + Send>;

/// A function that runs at most once.
struct Call(Mutex<Option<Function>>);

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}

impl Call {
    fn new(function: impl FnOnce() + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(function))))
    }

    fn take(&self) -> Option<Function> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn run(&self) {
        if let Some(function) = self.take() {
            // A result that nobody waits for is dropped there, and its `drop` may panic.
            drop(catch_unwind(AssertUnwindSafe(function)));
        }
    }

    /// Drops a function that has not run. The values that it holds may panic then.
    fn abort(&self) {
        let function = self.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(function))));
    }
}

static REFUSED: RateLimitedWarning = RateLimitedWarning::new("starting a thread for a handler");

static THREADS: Threads = Threads { state: Mutex::new(State::new()), called: Condvar::new() };

/// The threads and the calls that wait for one.
struct Threads {
    state: Mutex<State>,
    called: Condvar,
}

struct State {
    waiting: VecDeque<Arc<Call>>,
    threads: usize,
    idle: usize,
}

impl State {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), threads: 0, idle: 0 }
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&'static self, call: Arc<Call>, runtime: Handle) {
        self.lock().waiting.push_back(call);
        self.start(runtime);
    }

    /// Wakes or starts a thread for a call that waits.
    fn start(&'static self, runtime: Handle) {
        let mut state = self.lock();
        // An idle thread that was woken counts as idle until it takes its call.
        if state.waiting.len() <= state.idle || state.threads >= MOST {
            drop(state);
            return self.called.notify_one();
        }
        state.threads += 1;
        drop(state);
        let thread = thread::Builder::new().name("jobs-handler".to_owned());
        if let Err(problem) = thread.spawn(|| self.work()) {
            self.lock().threads -= 1;
            REFUSED.report(&problem);
            let again = runtime.clone();
            runtime.spawn(async move {
                tokio::time::sleep(RETRY).await;
                self.start(again);
            });
        }
    }

    fn work(&self) {
        while let Some(call) = self.next() {
            call.run();
        }
    }

    /// The next call. `None` if there was none for a while: then the thread ends.
    fn next(&self) -> Option<Arc<Call>> {
        let mut state = self.lock();
        loop {
            if let Some(call) = state.waiting.pop_front() {
                return Some(call);
            }
            state.idle += 1;
            let (woken, wait) = self.called.wait_timeout(state, KEEP_ALIVE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if wait.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_call_runs_on_a_named_thread_within_the_runtime() {
        let call = spawn(|| (thread::current().name().map(str::to_owned), Handle::try_current().is_ok()));
        assert_eq!(call.await.unwrap(), (Some("jobs-handler".to_owned()), true));
    }

    #[tokio::test]
    async fn a_panic_is_returned_and_the_threads_go_on() {
        let panicked = spawn(|| panic!("no good")).await;
        assert!(matches!(panicked, Err(NoResult::Panicked(payload)) if payload.downcast_ref() == Some(&"no good")));
        assert_eq!(spawn(|| 7).await.unwrap(), 7);
    }

    #[test]
    fn a_call_that_never_returns_does_not_keep_its_runtime() {
        let (open, opened) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let call = {
            let _context = runtime.enter();
            spawn(move || opened.recv())
        };
        drop(runtime);
        // Until now it has not returned.
        drop((open, call));
    }

    #[tokio::test]
    async fn calls_beyond_the_most_threads_wait_and_can_be_aborted() {
        let (open, opened) = mpsc::channel::<()>();
        let opened = Arc::new(Mutex::new(opened));
        let blocked: Vec<_> = (0..MOST)
            .map(|_| {
                let opened = opened.clone();
                spawn(move || opened.lock().unwrap().recv().is_err())
            })
            .collect();
        let (aborted, waiting) = (spawn(|| ()), spawn(|| ()));
        aborted.abort_handle()();
        assert!(matches!(aborted.await, Err(NoResult::NotRun)));
        assert!(THREADS.lock().threads <= MOST);
        drop(open);
        for call in blocked {
            assert!(call.await.unwrap());
        }
        waiting.await.unwrap();
    }
}
