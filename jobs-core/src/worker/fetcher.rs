//! The fetcher: one per process. It claims for all queues whenever slots are free or few prefetched jobs are left. It
//! sleeps when no job is due.

mod rest;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::busy_polling::BusyPolling;
use super::report::Reporter;
use super::shared::Shared;
use super::{quarantined, runner};
use crate::crash_point::crash_point;
use crate::outcome::Transition;
use crate::storage::{Claim, StorageResult};
use crate::storage_error::StorageError;
use crate::telemetry::RateLimitedWarning;
use rest::WakeOn;

/// How soon a worker polls again after it has set its idle flag. The time then doubles with each poll. Transactions
/// that began before the flag was set may commit now, and they do not wake this worker.
const FIRST_LOOK: Duration = Duration::from_millis(5);
/// After being busy for this long, a worker clears its idle flag, so that enqueues do not wake it.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// How long a prefetched job waits here at most, approximately. Then it is released, so that other workers may claim
/// it.
const PREFETCHED_AT_MOST: Duration = Duration::from_millis(250);
/// The contention backoff: the sleep while jobs are due but cannot be claimed, because other workers hold their rows or
/// the claim limit is reached. It doubles each time, so that many workers do not spend their time on polling.
const CONTENTION_BACKOFF: Duration = Duration::from_millis(5);
/// After this many such polls the contention backoff is 1.28 s and no longer grows.
const MOST_BACKOFF_STEPS: u32 = 9;
/// After this much contention the worker bypasses the claim limit, because the workers that hold it may be stopped.
const BYPASS_AFTER: Duration = Duration::from_secs(10);
/// A failure to write the idle flag is logged only if it lasts for longer than this. Short failures are normal, because
/// the heartbeat also locks the worker's row for a moment.
const IDLE_WARNING_AFTER: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

struct Fetcher {
    shared: Arc<Shared>,
    reporter: Reporter,
    kinds: Arc<[String]>,
    until_empty: bool,
    /// Whether the storage was told that this worker is idle.
    idle: bool,
    /// When the storage was told.
    idle_since: Instant,
    /// Since when the idle flag could not be written.
    idle_failing_since: Option<Instant>,
    /// The storage has sent a hint, and no claim has been made since then.
    hinted: bool,
    busy_since: Option<Instant>,
    busy_polling: BusyPolling,
    /// The step of the contention backoff. A poll that finds a due job after a claim without jobs adds one. A claim
    /// that brings jobs subtracts two. So the pause of each worker adapts to the contention.
    contention: u32,
    /// Since when every poll has found contention.
    contended_since: Option<Instant>,
    pause: Duration,
    warning: RateLimitedWarning,
    idle_warning: RateLimitedWarning,
}

/// Runs until the worker drains. Then the prefetched jobs are released.
pub(super) async fn run(shared: Arc<Shared>, reporter: Reporter, until_empty: bool) {
    let kinds = shared.registry.kinds().into();
    let mut fetcher = Fetcher {
        shared,
        reporter,
        kinds,
        until_empty,
        idle: false,
        idle_since: Instant::now(),
        idle_failing_since: None,
        hinted: false,
        busy_since: None,
        busy_polling: BusyPolling::new(Instant::now()),
        contention: 0,
        contended_since: None,
        pause: FIRST_PAUSE,
        warning: RateLimitedWarning::new("claim"),
        idle_warning: RateLimitedWarning::new("set_idle"),
    };
    let draining = fetcher.shared.phases.draining().clone();
    while !draining.is_cancelled() {
        fetcher.turn().await;
    }
    fetcher.give_back(Duration::ZERO).await;
}

impl Fetcher {
    /// One round. It starts runners, releases overdue prefetched jobs, runs a quarantined job if one is due, and
    /// claims. Then it waits, as the result of the claim requires.
    async fn turn(&mut self) {
        runner::start(&self.shared, &self.reporter);
        self.give_back(PREFETCHED_AT_MOST).await;
        if self.shared.quarantined.swap(false, Ordering::AcqRel) {
            match quarantined::run_one(&self.shared, &self.reporter, &self.wants()).await {
                // More quarantined jobs may be due, but other jobs must be claimed, too.
                Ok(found) => drop(self.shared.quarantined.fetch_or(found, Ordering::AcqRel)),
                Err(problem) => return self.fail(&problem).await,
            }
            if self.shared.phases.draining().is_cancelled() {
                return;
            }
        }
        let claim = self.wants();
        let wanted = &claim.wanted;
        if wanted.is_empty() {
            return self.wait_for_room().await;
        }
        let nothing_of_ours = self.shared.leases.count() == 0;
        let wake_on =
            WakeOn { slot: wanted.len() < self.shared.queues.len(), last_end: self.until_empty && !nothing_of_ours };
        let claimed = match self.claim(&claim).await {
            Ok(jobs) => jobs,
            Err(problem) => return self.fail(&problem).await,
        };
        self.pause = FIRST_PAUSE;
        if std::mem::take(&mut self.hinted) && claimed == 0 {
            // A notification arrived, but the claim brought no job. Either another worker has claimed the job, or it is
            // a straggler, which claims do not see. So a rescan is requested.
            self.shared.came_back.notify_one();
        }
        let busy_polling = self.busy_polling.after_claim(claimed > 0, Instant::now()) && !self.until_empty;
        if claimed > 0 {
            self.contended_since = None;
            self.contention = self.contention.saturating_sub(2);
            return self.stay_awake(busy_polling).await;
        }
        self.busy_since = None;
        if busy_polling && !self.idle {
            self.reason_within(BusyPolling::PAUSE, WakeOn { last_end: false, ..wake_on }).await;
            return;
        }
        self.rest(&claim, wake_on, nothing_of_ours).await;
    }

    /// A claim for as many jobs as there is room for now.
    fn wants(&self) -> Claim {
        let bypass_limit = self.contended_since.is_some_and(|since| since.elapsed() > BYPASS_AFTER);
        let (worker, wanted) = (*self.shared.id.borrow(), self.shared.queues.wanted());
        let quarantined_at = self.shared.settings.rescue_policy(false).quarantined_at();
        Claim { bypass_limit, quarantined_at, ..Claim::new(worker, wanted, self.kinds.clone()) }
    }

    /// Claims jobs and puts them into their queues. Returns how many.
    async fn claim(&self, claim: &Claim) -> StorageResult<usize> {
        let _claiming = self.shared.claiming.lock().await;
        crash_point("claim");
        let mut claim = std::pin::pin!(self.shared.storage.claim(claim));
        let jobs = loop {
            tokio::select! {
                biased;
                jobs = &mut claim => break jobs?,
                // Prefetched jobs start while the claim is under way.
                () = self.shared.queues.capacity_changed() => runner::start(&self.shared, &self.reporter),
            }
        };
        self.shared.claimed.notify_one();
        let number = jobs.len();
        self.shared.counters.count_claimed(number);
        if number > 0 {
            crash_point("claimed");
        }
        for ctx in self.shared.queues.push(self.shared.take(jobs)) {
            // The claim asked for served queues only. If a storage returns another queue all the same, the job is
            // released.
            self.reporter.report(ctx, Transition::Release).await;
        }
        if number > 0 {
            crash_point("prefetched");
        }
        Ok(number)
    }

    /// A claim failed. The database may have granted it although its answer was lost.
    async fn fail(&mut self, problem: &StorageError) {
        self.shared.needs_reconcile.store(true, Ordering::Release);
        self.warning.report(problem);
        self.back_off().await;
    }

    /// Clears the idle flag of a worker that has been busy for a while or polls busily: enqueues need not wake it.
    async fn stay_awake(&mut self, busy_polling: bool) {
        let busy = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if self.idle && (busy_polling || busy > BUSY_AFTER) {
            self.idle = !self.set_idle(false).await;
        }
    }

    /// Writes the idle flag. Returns whether the storage has stored it.
    async fn set_idle(&mut self, idle: bool) -> bool {
        let id = *self.shared.id.borrow();
        let told = self.shared.storage.set_idle(id, idle).await;
        self.idle_failing_since = told.is_err().then(|| self.idle_failing_since.unwrap_or_else(Instant::now));
        if let Err(problem) = &told
            && self.idle_failing_since.is_some_and(|since| since.elapsed() > IDLE_WARNING_AFTER)
        {
            self.idle_warning.report(problem);
        }
        told.is_ok()
    }

    /// Waits for a free slot, or until few prefetched jobs are left.
    async fn wait_for_room(&self) {
        let prefetched = self.shared.queues.any_prefetched();
        tokio::select! {
            () = self.shared.queues.capacity_changed() => {}
            () = tokio::time::sleep(PREFETCHED_AT_MOST), if prefetched => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }

    /// Releases all prefetched jobs of each queue in which one of them has waited this long. Behind a long job they
    /// would wait for its end, while other workers may have nothing to do. They have not started, so no attempt is
    /// consumed.
    async fn give_back(&self, waited: Duration) {
        for ctx in self.shared.queues.overdue(waited) {
            self.reporter.report(ctx, Transition::Release).await;
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
