//! Plain functions run on [threads](crate::handler_threads) that nothing waits for. A thread that has run one job
//! continues with the next job of its queue. Therefore a short job costs no task, no wake-up and no thread switch, even
//! if there are many.
//!
//! A function cannot be stopped. Its runner watches it from a task. When the time limit, the lease or the worker's
//! grace period is over, the runner records the end of the attempt without the function. The slot stays with the
//! function until the function returns. Either the function or the runner ends an attempt, never both.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::{Instrument as _, Span};

use super::attempt::{self, Ended};
use super::executor::Executor;
use super::layers;
use super::queue::Slot;
use super::shared::Shared;
use crate::context::JobContext;
use crate::crash_point::crash_point;
use crate::handler::{Handler, Registration};
use crate::handler_threads::{self, HandlerCall, NoResult};
use crate::outcome::Handled;
use crate::panics;
use crate::telemetry;

/// A job is not watched before it has run for this long. Most jobs have ended by then.
const UNWATCHED: Duration = Duration::from_millis(10);
/// After this long a thread ends, so that other jobs get a thread. If there are more slots than threads, some jobs
/// wait.
const STAY: Duration = Duration::from_millis(50);

/// A plain function's attempt.
pub(super) struct Work {
    registration: Registration,
    function: fn(JobContext) -> Handled,
    ctx: JobContext,
    span: Span,
    state: AtomicU8,
}

impl Work {
    const RUNS: u8 = 0;
    const WATCHED: u8 = 1;
    /// The function has returned, and its thread records the end of the attempt.
    const RETURNED: u8 = 2;
    /// The attempt has ended without the function, and the runner records its end.
    const ABANDONED: u8 = 3;

    /// For a job that is to be run and whose handler is a plain function. Any other job is returned as the error.
    pub(super) fn of(executor: &Executor, ctx: JobContext) -> Result<Self, JobContext> {
        match executor.shared.registry.get(ctx.kind()) {
            Some(registration) if !ctx.is_cancelled() => match registration.handler {
                Handler::Blocking(function) if ctx.begin() => {
                    let (registration, span) = (*registration, telemetry::job_span(ctx.claimed()));
                    Ok(Self { registration, function, ctx, span, state: AtomicU8::new(Self::RUNS) })
                }
                _ => Err(ctx),
            },
            _ => Err(ctx),
        }
    }

    /// Makes the thread notify the runner when the function returns. Returns `false` if it has returned already.
    fn watch(&self) -> bool {
        let watched = self.state.compare_exchange(Self::RUNS, Self::WATCHED, Ordering::AcqRel, Ordering::Acquire);
        matches!(watched, Ok(_) | Err(Self::WATCHED))
    }

    /// Ends the attempt without its function. Returns `false` if the function has returned already.
    fn abandon(&self) -> bool {
        let state = self.state.swap(Self::ABANDONED, Ordering::AcqRel);
        state != Self::RETURNED
    }

    async fn conclude(&self, executor: &Executor, ended: Ended, ran: Duration) {
        executor.conclude(&self.registration, self.ctx.clone(), ended, ran).instrument(self.span.clone()).await;
    }
}

/// The current work of a thread, visible to its runner.
struct Current {
    work: Mutex<Arc<Work>>,
    /// `None` after the runner has abandoned the attempt. A worker that ends waits until all reporters are gone, so the
    /// thread must not keep one.
    executor: Mutex<Option<Executor>>,
    /// A function that was watched has returned.
    returned: Notify,
}

impl Current {
    fn set(&self, work: Work) -> Arc<Work> {
        let work = Arc::new(work);
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = work.clone();
        work
    }

    fn work(&self) -> Arc<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn executor(&self) -> MutexGuard<'_, Option<Executor>> {
        self.executor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot, and a prefetched job that the thread took for it but cannot run itself.
type Freed = (Slot, Option<JobContext>);

/// Runs this attempt on a thread, and then further jobs. Returns the slot, unless a function still occupies it.
pub(super) async fn run(executor: &Executor, slot: Slot, work: Work) -> Option<Freed> {
    let current = Arc::new(Current {
        work: Mutex::new(Arc::new(work)),
        executor: Mutex::new(Some(executor.clone())),
        returned: Notify::new(),
    });
    let layered = (!executor.shared.settings.layers.is_empty()).then(|| executor.shared.clone());
    let (started, mut thread) = (Instant::now(), begin(current.clone(), slot, layered));
    loop {
        tokio::select! {
            biased;
            joined = &mut thread => return ended(executor, &current, joined, started).await,
            () = tokio::time::sleep(UNWATCHED) => {}
        }
        let work = current.work();
        if !work.watch() {
            continue;
        }
        let over = tokio::select! {
            biased;
            joined = &mut thread => return ended(executor, &current, joined, started).await,
            () = current.returned.notified() => continue,
            over = attempt::over(&executor.shared, &work.registration, &work.ctx) => over,
        };
        if work.abandon() {
            current.executor().take();
            return abandon(executor, &work, thread, over).await;
        }
    }
}

/// `layered` is there if the worker has layers.
fn begin(current: Arc<Current>, slot: Slot, layered: Option<Arc<Shared>>) -> HandlerCall<Freed> {
    let runtime = Handle::current();
    handler_threads::spawn(move || {
        let since = Instant::now();
        let mut work = current.work();
        loop {
            crash_point("start");
            let started = Instant::now();
            work.ctx.start(started);
            let ended_before = layered.as_ref().and_then(|shared| {
                let before = layers::before(shared, &work.registration, &work.ctx);
                runtime.block_on(before.instrument(work.span.clone()))
            });
            let ended = ended_before.unwrap_or_else(|| {
                let call = || panics::caught_blocking(|| (work.function)(work.ctx.clone()));
                Ended::Handled(work.span.in_scope(call))
            });
            match work.state.swap(Work::RETURNED, Ordering::AcqRel) {
                Work::ABANDONED => return (slot, None),
                Work::WATCHED => current.returned.notify_one(),
                _ => {}
            }
            let executor = current.executor().clone();
            let Some(executor) = executor else { return (slot, None) };
            runtime.block_on(work.conclude(&executor, ended, started.elapsed()));
            slot.queue().prefetch.ran(started.elapsed());
            if executor.is_draining() || since.elapsed() >= STAY {
                return (slot, None);
            }
            let Some(next) = slot.queue().next() else { return (slot, None) };
            work = match Work::of(&executor, next) {
                Ok(next) => current.set(next),
                Err(next) => return (slot, Some(next)),
            };
        }
    })
}

/// Handles the end of the thread.
async fn ended(
    executor: &Executor,
    current: &Current,
    joined: Result<Freed, NoResult>,
    since: Instant,
) -> Option<Freed> {
    let error = match joined {
        Ok(freed) => return Some(freed),
        Err(error) => error,
    };
    // Our own code panicked.
    let work = current.work();
    if work.abandon() {
        work.conclude(executor, attempt::call_without_result(error), since.elapsed()).await;
    }
    None
}

/// Ends an attempt whose function has not returned.
async fn abandon(executor: &Executor, work: &Work, thread: HandlerCall<Freed>, over: Ended) -> Option<Freed> {
    work.ctx.stop().ask();
    // The thread can be stopped from outside only before it has begun.
    thread.abort_handle()();
    let freed = tokio::time::timeout(attempt::stop_time(&over), thread).await;
    let over = of_call(over, &freed);
    let ran = work.ctx.running().unwrap_or_default();
    if freed.is_err() {
        attempt::say_that_it_continues(&executor.shared, &work.ctx);
    }
    work.conclude(executor, over, ran).await;
    let (slot, next) = freed.ok()?.ok()?;
    slot.queue().prefetch.ran(ran);
    Some((slot, next))
}

/// A call that has only waited for a thread has used nothing of its time limit.
fn of_call<T, E>(over: Ended, freed: &Result<Result<T, NoResult>, E>) -> Ended {
    match (&over, freed) {
        (Ended::TimedOut(_), Ok(Err(NoResult::NotRun))) => Ended::GivenUp,
        _ => over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_thread_is_no_time_out() {
        let timed_out = |freed: Result<Result<(), NoResult>, ()>| {
            matches!(of_call(Ended::TimedOut(Duration::from_secs(1)), &freed), Ended::TimedOut(_))
        };
        assert!(!timed_out(Ok(Err(NoResult::NotRun))));
        assert!(timed_out(Ok(Ok(()))));
        assert!(timed_out(Err(())));
        assert!(matches!(of_call(Ended::Lost, &Ok::<_, ()>(Err::<(), _>(NoResult::NotRun))), Ended::Lost));
    }
}
