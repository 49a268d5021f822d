//! The heartbeat has its own thread, and on PostgreSQL its own connection. So the worker keeps its leases when a
//! handler blocks the runtime, and when the pool has no free connection. The listener runs on the same thread: a server
//! keeps the notifications that a listener does not read, for all its databases, until it has no room for more and
//! refuses every commit that sends one.
//!
//! It also [releases](stalled) the jobs that wait in this process because a handler blocks the runtime.
//!
//! A worker that begins to drain sends a heartbeat at once, because that heartbeat tells the database so. If the worker
//! is killed before it has ended, its jobs are released.

mod stalled;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle};
use tokio_util::sync::CancellationToken;

use super::health_state::HealthState;
use super::heartbeat_state::Beat;
use super::idleness::Call;
use super::report::Reporter;
use super::shared::Shared;
use crate::asked::Asked;
use crate::lease::WorkerId;
use crate::storage::{self, Heartbeat, StorageResult};
use crate::telemetry::{self, RateLimitedWarning};
use stalled::Stalled;

/// The time for the heartbeat after the end of the worker.
const LAST_BEAT: Duration = Duration::from_secs(5);

/// Sends heartbeats until it is dropped.
pub(super) struct HeartbeatThread {
    stop: CancellationToken,
}

impl Drop for HeartbeatThread {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the thread. The worker is registered already, so its first beat is due after a quarter of a lease.
pub(super) fn start(
    shared: &Arc<Shared>,
    queues: Vec<String>,
    reporter: &Reporter,
) -> std::io::Result<HeartbeatThread> {
    let stop = CancellationToken::new();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (shared, stopped, main) = (shared.clone(), stop.clone(), Handle::current());
    let mut stalled = Stalled::new(reporter.downgrade(), main.clone());
    shared.heartbeat_state.beat();
    std::thread::Builder::new().name("jobs-heartbeat".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut line = Line::default();
            tokio::select! {
                () = stopped.cancelled() => {}
                () = keep_alive(&shared, &main, &mut line, &mut stalled) => {}
                () = listen(&shared, &queues) => {}
            }
            line.say_last(&shared).await;
        });
    })?;
    Ok(HeartbeatThread { stop })
}

/// Listens until the worker is quiet. Does not end.
async fn listen(shared: &Shared, queues: &[String]) {
    let (hint, admission, stop) = (shared.hint.clone(), shared.admission.clone(), shared.phases.quiet().clone());
    shared.storage.listen(queues, hint, admission, stop).await;
    std::future::pending().await
}

/// The connection of the heartbeats.
#[derive(Default)]
struct Line {
    open: Option<(WorkerId, Box<dyn Heartbeat>)>,
    /// The id under which the database knows that this worker drains.
    drains: Option<WorkerId>,
    /// Whether the last heartbeat says that the next one comes late.
    rests: bool,
}

impl Line {
    /// Sends a heartbeat, which says how long this worker counts as alive.
    async fn beat(&mut self, shared: &Shared, id: WorkerId, drains: bool) -> StorageResult<Option<storage::Beat>> {
        let rests = shared.idleness.rests();
        self.rests = rests;
        let heartbeat = self.connection(shared).await?;
        let lease = if rests { shared.settings.resting_lease() } else { shared.settings.lease };
        let beat = heartbeat.beat(drains, lease).await?;
        self.drains = drains.then_some(id);
        Ok(beat)
    }

    async fn connection(&mut self, shared: &Shared) -> StorageResult<&mut Box<dyn Heartbeat>> {
        let id = *shared.id.borrow();
        let open = match self.open.take().filter(|(of, _)| *of == id) {
            Some(open) => open,
            None => (id, shared.storage.open_heartbeat(id).await?),
        };
        Ok(&mut self.open.insert(open).1)
    }

    /// Waits until the next heartbeat is due: after this wait, or when the worker begins to drain.
    async fn until_due(&self, due: impl Future<Output = ()>, draining: &CancellationToken) {
        let knows = self.drains.is_some();
        tokio::select! {
            () = due => {}
            () = draining.cancelled(), if !knows => {}
        }
    }

    /// The future of the worker may be dropped while jobs run. So one more heartbeat says that the worker drains,
    /// through a new connection, because the last heartbeat may not have ended.
    async fn say_last(&mut self, shared: &Shared) {
        let id = *shared.id.borrow();
        if self.drains != Some(id) && shared.leases.count() > 0 {
            self.open = None;
            let _ = tokio::time::timeout(LAST_BEAT, self.beat(shared, id, true)).await;
        }
    }
}

async fn keep_alive(shared: &Arc<Shared>, main: &Handle, line: &mut Line, stalled: &mut Stalled) {
    let warning = RateLimitedWarning::new("heartbeat");
    let every = shared.settings.heartbeat_interval();
    // The time until the next try after a failure. It is much shorter than the time between two heartbeats, so that a
    // short outage does not cost a quarter of a lease.
    let again = (every / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        end_if_refused(shared);
        let id = *shared.id.borrow();
        let (sent, since) = (Instant::now(), shared.idleness.now());
        match line.beat(shared, id, shared.phases.draining().is_cancelled()).await {
            Ok(Some(beat)) => {
                if shared.heartbeat_state.answered(Beat { sent, at: beat.at }, Instant::now(), every) {
                    // The services of an idle worker have waited by its own clock.
                    shared.idleness.call(Call::Changes);
                }
                if !line.rests {
                    shared.idleness.rest_has_ended();
                }
                shared.health.heartbeat(true);
                shared.frozen.send_if_modified(|known| std::mem::replace(known, beat.frozen) != beat.frozen);
                do_as_asked(shared, beat.asked);
                let due = async {
                    match shared.idleness.is_rest_told() {
                        true => shared.idleness.until_heartbeat(since).await,
                        false => until_usual(every, &shared.health).await,
                    }
                };
                let mut due = std::pin::pin!(due);
                loop {
                    let until_due = line.until_due(due.as_mut(), shared.phases.draining());
                    tokio::select! {
                        () = until_due => break,
                        () = stalled.until_blocked() => {
                            // The heartbeat must not be late because of it. A statement may then be under way.
                            let is_in_time = tokio::select! {
                                () = stalled.release(shared, line) => true,
                                () = due.as_mut() => false,
                            };
                            if !is_in_time {
                                line.open = None;
                                break;
                            }
                        }
                    }
                }
            }
            Ok(None) => {
                line.open = None;
                start_over(shared, main, id).await;
            }
            Err(problem) => {
                line.open = None;
                shared.heartbeat_state.failed();
                shared.health.heartbeat(false);
                shared.idleness.end();
                if !shared.heartbeat_state.alive_within(shared.settings.lease) {
                    // Another worker may have the jobs now, so their handlers are asked to stop.
                    shared.leases.lose(id);
                }
                warning.report(&problem);
                tokio::time::sleep(again).await;
            }
        }
    }
}

/// Waits until the next heartbeat of a worker that does not rest is due: after the usual time, or when a poll fails.
async fn until_usual(every: Duration, health: &HealthState) {
    tokio::select! {
        () = tokio::time::sleep(every) => {}
        () = health.doubted() => {}
    }
}

/// Ends a worker whose credentials the server has refused for long. It can open no connection, and a new process may
/// have other credentials.
fn end_if_refused(shared: &Shared) {
    let problem = shared.refusals.lasting_for(shared.settings.refused_for);
    if let Some(problem) = problem.filter(|_| !shared.phases.draining().is_cancelled()) {
        let text = problem.to_string();
        shared.end_with(problem.into());
        telemetry::credentials_refused(&text);
    }
}

/// Does what an operator asks of this worker.
fn do_as_asked(shared: &Shared, asked: Option<Asked>) {
    let (phase, asked) = match asked {
        None => return,
        Some(Asked::Quiet) => (shared.phases.quiet(), Asked::Quiet),
        Some(Asked::Stop) => (shared.phases.draining(), Asked::Stop),
    };
    if !phase.is_cancelled() {
        phase.cancel();
        telemetry::asked(asked);
    }
}

/// Registers the worker under a new id after it was declared dead. Its jobs run elsewhere, so it continues without
/// jobs. The registration runs on the main runtime, because the pool of that runtime must not hold connections of this
/// thread's runtime.
async fn start_over(shared: &Arc<Shared>, main: &Handle, old: WorkerId) {
    let warning = RateLimitedWarning::new("register");
    shared.heartbeat_state.restart();
    shared.health.not_registered();
    telemetry::declared_dead(old, shared.leases.declare_dead(old));
    loop {
        let again = shared.clone();
        let registered = main.spawn(async move {
            let id = WorkerId::generate();
            let mut info = again.info();
            info.id = id;
            again.register(&info).await.map(|_| again.id.send_replace(id))
        });
        match registered.await {
            Ok(Ok(_)) => {
                shared.idleness.rest_has_ended();
                // The new row has no idle flag.
                shared.wake.notify_one();
                return;
            }
            Ok(Err(problem)) => {
                end_if_refused(shared);
                warning.report(&problem);
            }
            // The main runtime shuts down, and so does the worker.
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn a_worker_that_begins_to_drain_says_so_at_once_and_only_once() {
        let (hour, draining) = (Duration::from_secs(3600), CancellationToken::new());
        let is_due = |line: &Line| {
            let due = std::pin::pin!(line.until_due(tokio::time::sleep(hour), &draining));
            due.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
        };
        let mut line = Line::default();
        assert!(!is_due(&line));
        draining.cancel();
        assert!(is_due(&line));
        line.drains = Some(WorkerId::generate());
        assert!(!is_due(&line), "the database knows it");
    }

    #[tokio::test]
    async fn a_heartbeat_is_due_at_once_after_a_poll_has_failed() {
        let health = HealthState::default();
        let is_due = || {
            let due = std::pin::pin!(until_usual(Duration::from_secs(3600), &health));
            due.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
        };
        assert!(!is_due());
        health.doubt();
        assert!(is_due());
        assert!(!is_due(), "one heartbeat answers it");
    }
}
