//! The shutdown, in three phases. The worker claims no more jobs (*draining*), asks its handlers to stop (*stopping*),
//! and ends attempts without their handlers (*now*).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::shared::Shared;
use super::stats::WorkerStats;
use super::valid_leases::valid_leases;
use crate::crash_point::crash_point;
use crate::outcome::{Finish, Transition};
use crate::storage::PassOn;
use crate::telemetry;

/// The time that handlers get after they were asked to stop. The same time is then waited for the ends of the attempts.
const STOP_TIME: Duration = Duration::from_millis(500);
/// The time for the finishes of attempts that ended without their handlers.
const LAST_FINISHES: Duration = Duration::from_secs(5);
/// The time for the last batch, if every job has ended in time.
const FLUSH: Duration = Duration::from_secs(10);
/// If no job is held, the current claim gets this time. The server ends a claim sooner, so it executes none after it.
const LAST_CLAIM: Duration = Duration::from_secs(12);
/// The time between two tries to release the jobs that are left.
const AGAIN: Duration = Duration::from_millis(250);

/// Stops the worker if the future of `run_until` is dropped before its end. No work may continue then, because no
/// caller waits for it.
pub(super) struct StopOnDrop(Arc<Shared>);

impl StopOnDrop {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self(shared.clone())
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.phases.draining().cancel();
        self.0.ask_to_stop();
        self.0.phases.now().cancel();
    }
}

/// How the drain has ended.
pub(super) struct Drained {
    /// Waiting finishes may be written until this time.
    pub(super) until: Instant,
    /// The database may still execute a claim. If the worker's row stays, a rescue releases its jobs.
    pub(super) may_still_claim: bool,
}

/// Drains the worker. Returns when no lease is held, or when no more leases can be finished.
pub(super) async fn drain(shared: &Shared, fetcher: JoinHandle<()>) -> Drained {
    let phases = &shared.phases;
    phases.draining().cancel();
    crash_point("drain");
    telemetry::worker_draining(shared.leases.count(), shared.settings.grace);
    let last_claim = fetcher.abort_handle();
    let drained = async {
        // The fetcher ends after its current claim, and releases the jobs of that claim.
        let _ = fetcher.await;
        shared.leases.none_held().await;
    };
    let mut drained = std::pin::pin!(drained);
    let unanswered = async {
        tokio::time::sleep(LAST_CLAIM).await;
        shared.leases.none_held().await;
    };
    let by = |time| Drained { until: Instant::now() + time, may_still_claim: false };
    let is_grace_over = tokio::select! {
        biased;
        () = &mut drained => return by(FLUSH),
        () = unanswered => {
            last_claim.abort();
            shared.needs_reconcile.store(true, Ordering::Release);
            false
        }
        () = phases.stopping().cancelled() => true,
        () = tokio::time::sleep(shared.settings.grace) => true,
    };
    crash_point("grace-over");
    let left = shared.leases.count();
    shared.ask_to_stop();
    if is_grace_over {
        telemetry::grace_period_over(left);
    }
    if tokio::time::timeout(STOP_TIME, &mut drained).await.is_ok() {
        return by(FLUSH);
    }
    phases.now().cancel();
    let last = Instant::now() + LAST_FINISHES;
    if tokio::time::timeout(STOP_TIME, &mut drained).await.is_err() {
        // Handlers that never yield to the runtime cannot end their attempts. The process is about to end.
        let mut left = shared.leases.running();
        left.retain(|(ctx, _)| !ctx.has_ended());
        let _ = tokio::time::timeout_at(last, async {
            while !release_all(shared).await {
                tokio::time::sleep(AGAIN).await;
            }
            drained.await;
        })
        .await;
        left.iter().for_each(|(ctx, _)| telemetry::handler_left(ctx.claimed()));
    }
    let may_still_claim = !last_claim.is_finished();
    if may_still_claim {
        last_claim.abort();
        shared.needs_reconcile.store(true, Ordering::Release);
    }
    Drained { until: last, may_still_claim }
}

/// Releases the jobs of all leases that are still held. If an attempt has finished before, its release changes nothing.
/// If it finishes later, its finish is refused. A lease whose row is locked by another session stays held. Returns
/// `false` if the database could not be reached.
async fn release_all(shared: &Shared) -> bool {
    let leases = shared.leases.held();
    let releases: Vec<Finish> = leases.iter().copied().map(Finish::release).collect();
    let released = async {
        let finished = shared.storage.finish(&releases, PassOn::Nothing).await?;
        finished.moved.iter().for_each(|_| shared.counters.count_finished(&Transition::Release));
        valid_leases(&*shared.storage, &leases).await
    };
    match released.await {
        Ok(locked) => {
            shared.leases.end(leases.iter().filter(|lease| !locked.contains(lease)));
            true
        }
        Err(problem) if problem.is_transient() => false,
        Err(problem) => {
            telemetry::refused("finish", &problem);
            true
        }
    }
}

/// Stops and inspects a worker from another task or thread. It is cheap to clone.
#[derive(Clone)]
pub struct WorkerHandle(Arc<Shared>);

impl std::fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerHandle").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl WorkerHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Begins the shutdown: the worker claims no more jobs, and running jobs may continue for the grace period.
    pub fn shutdown(&self) {
        self.0.phases.draining().cancel();
    }

    /// Begins the shutdown without a grace period: handlers are asked to stop, and unfinished jobs are released. Their
    /// runs do not count as attempts.
    pub fn shutdown_now(&self) {
        self.0.phases.draining().cancel();
        self.0.ask_to_stop();
    }

    /// Ends the time limits of all attempts, those of later attempts, too. A test need not guess then how long a
    /// handler takes.
    #[doc(hidden)]
    pub fn end_time_limits(&self) {
        self.0.phases.time_is_up().cancel();
    }

    /// The counters of this worker since its start.
    pub fn stats(&self) -> WorkerStats {
        self.0.counters.snapshot()
    }

    /// The number of jobs that this worker has claimed and not yet finished.
    pub fn in_flight(&self) -> usize {
        self.0.leases.count()
    }

    /// The number of open connections in the worker's pools. `None` on SQLite, which has no such pools.
    pub fn connections(&self) -> Option<usize> {
        self.0.storage.connections()
    }

    /// Whether a heartbeat has reached the database within the last lease time. If so, the worker still owns its jobs.
    /// A worker whose poll interval is longer than the time between two heartbeats sends fewer while it is idle, and is
    /// healthy for that much longer.
    pub fn is_healthy(&self) -> bool {
        let settings = &self.0.settings;
        let lease = if self.0.idleness.is_rest_told() { settings.resting_lease() } else { settings.lease };
        self.0.heartbeat_state.alive_within(lease)
    }
}
