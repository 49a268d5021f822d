//! Stopping in three phases: no more claims (*draining*), handlers asked to stop (*stopping*), handlers given up (*now*).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::shared::Shared;
use super::stats::WorkerStats;
use crate::crash_point::crash_point;
use crate::lease::Lease;
use crate::outcome::{Finish, Transition};
use crate::telemetry;

/// The time between asking handlers to stop and giving them up.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The time for all finishes of jobs that were given up, whatever the database answers.
const LAST_FINISHES: Duration = Duration::from_secs(5);
/// The time for the last batch, if every job has ended in time.
const FLUSH: Duration = Duration::from_secs(10);

/// Stops the worker if the future of `run_until` is dropped half-way: no work may go on without a caller that waits for
/// it.
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

/// Drains the worker. Returns when no lease is held, or when no more leases can be finished. Returns the time until
/// which waiting finishes may be written.
pub(super) async fn drain(shared: &Shared, fetcher: JoinHandle<()>) -> Instant {
    let phases = &shared.phases;
    phases.draining().cancel();
    crash_point("drain");
    telemetry::worker_draining(shared.leases.count(), shared.settings.grace);
    let drained = async {
        // The fetcher ends after its current claim, and gives the jobs of that claim back.
        let _ = fetcher.await;
        shared.leases.none_held().await;
    };
    let mut drained = std::pin::pin!(drained);
    tokio::select! {
        () = &mut drained => return Instant::now() + FLUSH,
        () = phases.stopping().cancelled() => {}
        () = tokio::time::sleep(shared.settings.grace) => {}
    }
    crash_point("grace-over");
    telemetry::worker_gives_back(shared.leases.count());
    shared.ask_to_stop();
    if tokio::time::timeout(LAST_WORDS, &mut drained).await.is_ok() {
        return Instant::now() + FLUSH;
    }
    phases.now().cancel();
    let last = Instant::now() + LAST_FINISHES;
    if tokio::time::timeout(LAST_WORDS, &mut drained).await.is_err() {
        // Handlers that never yield to the runtime cannot give their jobs back. The process is about to end.
        let _ = tokio::time::timeout_at(last, async {
            give_back(shared).await;
            drained.await;
        })
        .await;
    }
    last
}

/// Gives back every lease that is still held. If its attempt has finished first, this finish changes nothing. If the
/// attempt finishes later, its finish is refused.
async fn give_back(shared: &Shared) {
    let leases = shared.leases.held();
    let release = |lease: &Lease| Finish { lease: *lease, transition: Transition::Release };
    let releases: Vec<Finish> = leases.iter().map(release).collect();
    match shared.storage.finish(&releases).await {
        Ok(moved) => {
            moved.iter().for_each(|_| shared.counters.count_finished(&Transition::Release));
            shared.leases.end(&leases);
        }
        Err(problem) => telemetry::refused("finish", &problem),
    }
}

/// Stops and inspects a worker from elsewhere. Cheap to clone.
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

    /// Stops claiming; running jobs get the grace period.
    pub fn shutdown(&self) {
        self.0.phases.draining().cancel();
    }

    /// Stops now: running jobs are cancelled and go back without losing an attempt.
    pub fn shutdown_now(&self) {
        self.0.phases.draining().cancel();
        self.0.ask_to_stop();
    }

    /// What the worker has done since it started.
    pub fn stats(&self) -> WorkerStats {
        self.0.counters.snapshot()
    }

    /// Jobs claimed and not yet finished.
    pub fn in_flight(&self) -> usize {
        self.0.leases.count()
    }

    /// Whether the heartbeat reached the database within the last lease. If so, the worker still owns its jobs.
    pub fn is_healthy(&self) -> bool {
        self.0.pulse.alive_within(self.0.settings.lease)
    }
}
