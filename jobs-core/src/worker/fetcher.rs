//! The fetcher: one per process, claims for all its queues whenever slots are free, and sleeps when nothing is there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::completer::Reporter;
use super::{Shared, executor};
use crate::lease::ClaimedJob;
use crate::outcome::{Finish, Transition};
use crate::storage::{Claim, StorageResult};
use crate::telemetry::Trouble;

/// A worker busy for this long stops asking to be woken.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// The shortest sleep towards a due time: rows that are due but held by others must not make it spin.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

struct Fetcher {
    shared: Arc<Shared>,
    reporter: Reporter,
    kinds: Arc<[String]>,
    until_empty: bool,
    /// Whether the storage was told that this worker sleeps.
    idle: bool,
    busy_since: Option<Instant>,
    pause: Duration,
    trouble: Trouble,
}

/// Runs until the worker drains.
pub(super) async fn run(shared: Arc<Shared>, reporter: Reporter, until_empty: bool) {
    let kinds = shared.registry.kinds().into();
    let mut fetcher = Fetcher {
        shared,
        reporter,
        kinds,
        until_empty,
        idle: false,
        busy_since: None,
        pause: FIRST_PAUSE,
        trouble: Trouble::new("claim"),
    };
    let draining = fetcher.shared.phases.draining().clone();
    while !draining.is_cancelled() {
        fetcher.turn().await;
    }
}

impl Fetcher {
    /// One look, and whatever wait it calls for.
    async fn turn(&mut self) {
        let wanted = self.shared.slots.free();
        if wanted.is_empty() {
            return self.wait_for_slot().await;
        }
        // As the claim sees it: a slot freed while the claim is under way must end the sleep after it.
        let a_slot_matters = wanted.len() < self.shared.settings.queues.len();
        let nothing_of_ours = self.shared.leases.count() == 0;
        let claim = Claim { worker: *self.shared.id.borrow(), wanted, kinds: self.kinds.clone() };
        let started = match self.claim(&claim).await {
            Ok(jobs) => jobs,
            Err(problem) => {
                self.trouble.report(&problem);
                return self.back_off().await;
            }
        };
        self.pause = FIRST_PAUSE;
        if started > 0 {
            return self.stay_awake().await;
        }
        self.busy_since = None;
        if !self.idle {
            // Raise the flag, then look once more: what was enqueued before the flag was seen is found by that look.
            self.idle = self.set_idle(true).await;
            if self.idle {
                return;
            }
        }
        match self.shared.storage.next_due(&claim).await {
            Ok(None) if self.until_empty && nothing_of_ours => self.shared.phases.draining().cancel(),
            Ok(due) => self.sleep(due, a_slot_matters, !nothing_of_ours).await,
            Err(problem) => {
                self.trouble.report(&problem);
                self.back_off().await;
            }
        }
    }

    /// Claims, and starts what that brings; answers how many jobs.
    async fn claim(&mut self, claim: &Claim) -> StorageResult<usize> {
        let shared = self.shared.clone();
        let jobs: Vec<_> = {
            let _claiming = shared.claiming.lock().await;
            let jobs = shared.storage.claim(claim).await?;
            jobs.into_iter().map(|job| (shared.leases.begin(job.lease), job)).collect()
        };
        let number = jobs.len();
        if number > 0 {
            self.dispatch(jobs).await;
        }
        Ok(number)
    }

    async fn dispatch(&mut self, jobs: Vec<(CancellationToken, ClaimedJob)>) {
        self.shared.counters.count_claimed(jobs.len());
        let draining = self.shared.phases.draining().is_cancelled();
        for (lost, job) in jobs {
            let lease = job.lease;
            match self.shared.slots.take(&job.queue).filter(|_| !draining) {
                Some(slot) => executor::start(&self.shared, job, slot, lost, self.reporter.clone()),
                // The worker began to drain while the claim was under way.
                None => self.reporter.report(&job.kind, Finish { lease, transition: Transition::Release }).await,
            }
        }
    }

    /// After a while without sleep, enqueues need not wake this worker any more.
    async fn stay_awake(&mut self) {
        let busy = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if self.idle && busy > BUSY_AFTER {
            self.idle = !self.set_idle(false).await;
        }
    }

    /// Returns whether the storage knows.
    async fn set_idle(&self, idle: bool) -> bool {
        let id = *self.shared.id.borrow();
        self.shared.storage.set_idle(id, idle).await.inspect_err(|problem| self.trouble.report(problem)).is_ok()
    }

    async fn wait_for_slot(&self) {
        tokio::select! {
            () = self.shared.slots.freed() => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }

    /// Sleeps until a hint, a freed slot of a queue that was full, the next due job or the poll, whichever is first; a
    /// worker that runs until nothing is left also looks again when its last job has ended.
    async fn sleep(&self, due: Option<Duration>, a_slot_matters: bool, jobs_run: bool) {
        let poll = self.shared.settings.poll.mul_f64(rand::random_range(0.8..1.0));
        let time = due.map_or(poll, |due| due.max(SHORTEST_SLEEP).min(poll));
        tokio::select! {
            () = self.shared.wake.notified() => {}
            () = self.shared.slots.freed(), if a_slot_matters => {}
            () = self.shared.leases.none_held(), if self.until_empty && jobs_run => {}
            () = tokio::time::sleep(time) => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }

    async fn back_off(&mut self) {
        let pause = self.pause.mul_f64(rand::random_range(0.5..1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }
}
