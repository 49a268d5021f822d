//! The fetcher: one per process. It claims for all queues whenever slots are free or few prefetched jobs are left. It
//! sleeps when no job is due.

mod ending;
mod idle_flag;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::bounds::Bounds;
use super::busy_polling::BusyPolling;
use super::error::WorkerError;
use super::report::Reporter;
use super::shared::Shared;
use super::{quarantined, runner};
use crate::crash_point::crash_point;
use crate::lease::WorkerId;
use crate::outcome::Transition;
use crate::storage::{Claim, StorageResult};
use crate::storage_error::StorageError;
use crate::telemetry::{self, RateLimitedWarning};
use ending::Awaited;
use waiting::WakeOn;

/// The time until the first poll after a worker has set its idle flag. It then doubles with each poll, up to the poll
/// interval. A transaction that enqueued before the flag was set may commit now, and it does not wake this worker.
const FIRST_POLL: Duration = Duration::from_millis(5);
/// About the longest time that a prefetched job waits for a slot. Then it is released, so that other workers can claim
/// it.
const PREFETCHED_AT_MOST: Duration = Duration::from_millis(250);
/// The contention backoff: the sleep while jobs are due but cannot be claimed, because other workers hold their rows or
/// the claim limit is reached. It doubles each time, so that many workers do not spend their time on polling.
const CONTENTION_BACKOFF: Duration = Duration::from_millis(5);
/// After this many such polls the contention backoff is 1.28 s and no longer grows.
const MOST_BACKOFF_STEPS: u32 = 9;
/// After this much contention the worker bypasses the claim limit, because the workers that hold it may be stopped.
const BYPASS_AFTER: Duration = Duration::from_secs(10);
/// The pause after the first error of the storage. It doubles with each error in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

struct Fetcher {
    shared: Arc<Shared>,
    reporter: Reporter,
    until_empty: bool,
    /// The limits of a worker that runs until nothing is left.
    bounds: Option<Bounds>,
    /// The id under which the storage has stored that this worker is idle.
    idle: Option<WorkerId>,
    /// When it was stored.
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
    /// What the last poll of an idle time said of the settings.
    settings: Option<i64>,
    /// The last poll of an idle time said that no notification tells of a change.
    is_deaf: bool,
    awaited: Awaited,
    pause: Duration,
    warning: RateLimitedWarning,
    idle_warning: RateLimitedWarning,
}

/// Runs until the worker claims no more jobs. Then the prefetched jobs are released.
pub(super) async fn run(shared: Arc<Shared>, reporter: Reporter, until_empty: Option<Bounds>) {
    let mut fetcher = Fetcher {
        shared,
        reporter,
        until_empty: until_empty.is_some(),
        bounds: until_empty,
        idle: None,
        idle_since: Instant::now(),
        idle_failing_since: None,
        hinted: false,
        busy_since: None,
        busy_polling: BusyPolling::new(Instant::now()),
        contention: 0,
        contended_since: None,
        settings: None,
        is_deaf: false,
        awaited: Awaited::default(),
        pause: FIRST_PAUSE,
        warning: RateLimitedWarning::new("claim"),
        idle_warning: RateLimitedWarning::new("set_idle"),
    };
    let quiet = fetcher.shared.phases.quiet().clone();
    while !quiet.is_cancelled() {
        fetcher.shared.health.tick();
        fetcher.round().await;
    }
    fetcher.release_overdue(Duration::ZERO).await;
    // A worker that is only quiet continues, and is healthy. One that runs until nothing is left ends after its jobs.
    let (shared, until_empty) = (fetcher.shared, fetcher.until_empty);
    shared.idleness.end();
    drop(fetcher.reporter);
    let draining = async {
        tokio::select! {
            () = shared.leases.none_held(), if until_empty => shared.phases.draining().cancel(),
            () = shared.phases.draining().cancelled() => {}
        }
    };
    shared.health.ticking(draining).await;
}

impl Fetcher {
    /// One round. It starts runners, releases overdue prefetched jobs, runs a quarantined job if one is due, and
    /// claims. Then it waits for the next reason to claim.
    async fn round(&mut self) {
        let quiet = self.shared.phases.quiet().clone();
        tokio::select! {
            biased;
            () = self.shared.health.ticking(self.shared.idleness.end_rest()) => {}
            () = quiet.cancelled() => return,
        }
        runner::start(&self.shared, &self.reporter);
        if self.is_deaf {
            if let Err(problem) = self.read_settings().await {
                self.warning.report(&problem);
                return self.back_off().await;
            }
            // If the claim brings jobs, the worker is idle no longer, and the settings watcher reads them.
            self.is_deaf = false;
        }
        self.release_overdue(PREFETCHED_AT_MOST).await;
        if self.shared.quarantined_due.swap(false, Ordering::AcqRel) {
            self.shared.idleness.end();
            match quarantined::run_one(&self.shared, &self.reporter, &self.next_claim()).await {
                // More quarantined jobs may be due, but other jobs must be claimed, too.
                Ok(found) => drop(self.shared.quarantined_due.fetch_or(found, Ordering::AcqRel)),
                Err(problem) => return self.fail(&problem).await,
            }
            if self.shared.phases.quiet().is_cancelled() {
                return;
            }
        }
        let claim = self.next_claim();
        let wanted = &claim.wanted;
        // No queue fits a pattern.
        let knows_no_queue = self.shared.queues.len() == 0;
        if self.until_empty && knows_no_queue {
            return self.end_if_nothing_is_left(&claim).await;
        }
        if wanted.is_empty() && !knows_no_queue {
            return self.wait_for_room().await;
        }
        let no_lease_held = self.shared.leases.count() == 0;
        let wake_on =
            WakeOn { slot: !self.shared.queues.are_all_in(&claim), last_end: self.until_empty && !no_lease_held };
        let claimed = match wanted.is_empty() {
            true => 0,
            false => match self.claim(&claim, !wake_on.slot).await {
                Ok(jobs) => jobs,
                Err(problem) => return self.fail(&problem).await,
            },
        };
        self.pause = FIRST_PAUSE;
        let begun = self.shared.counters.claimed();
        if self.bounds.as_ref().is_some_and(|bounds| begun > bounds.attempts) {
            return self.shared.end_with(WorkerError::TooManyAttempts { attempts: begun });
        }
        if std::mem::take(&mut self.hinted) && claimed == 0 {
            // A notification arrived, but the claim brought no job. Either another worker has claimed the job, or it is
            // a straggler, which claims do not find. So a rescan is requested. Or its queue is new.
            self.shared.rescan_requested.notify_one();
            self.shared.discovery_requested.notify_one();
        }
        let busy_polling = self.busy_polling.after_claim(claimed > 0, Instant::now()) && !self.until_empty;
        if claimed > 0 {
            self.awaited = Awaited::default();
            self.shared.idleness.end();
            self.contended_since = None;
            self.contention = self.contention.saturating_sub(2);
            return self.clear_idle_flag(busy_polling).await;
        }
        self.busy_since = None;
        if busy_polling && !self.is_idle() {
            self.sleep(BusyPolling::PAUSE, WakeOn { last_end: false, ..wake_on }).await;
            return;
        }
        self.wait_for_work(&claim, wake_on, no_lease_held).await;
    }

    /// The same as [`Shared::next_claim`]. After long contention it bypasses the claim limit.
    fn next_claim(&self) -> Claim {
        let bypass_limit = self.contended_since.is_some_and(|since| since.elapsed() > BYPASS_AFTER);
        Claim { bypass_limit, ..self.shared.next_claim() }
    }

    /// Claims jobs and puts them into their queues. Returns how many. `of_all` says whether the claim is for all
    /// queues.
    async fn claim(&self, claim: &Claim, of_all: bool) -> StorageResult<usize> {
        let _claiming = self.shared.claiming.read().await;
        crash_point("claim");
        let mut answer = std::pin::pin!(self.shared.storage.claim(claim));
        let jobs = loop {
            tokio::select! {
                biased;
                jobs = &mut answer => break jobs?,
                // Prefetched jobs start while the claim is under way.
                () = self.shared.queues.capacity_changed() => runner::start(&self.shared, &self.reporter),
            }
        };
        self.shared.routine_rescan_due.notify_one();
        let number = jobs.len();
        self.shared.queues.note_claimed(claim, &jobs);
        if of_all && !self.until_empty {
            self.shared.nothing_waits.claimed(claim, number);
        }
        self.shared.counters.count_claimed(number);
        if number > 0 {
            crash_point("claimed");
        }
        for ctx in self.shared.queues.push(self.shared.take(jobs)) {
            // The claim asked for served queues only. If a storage returns another queue nevertheless, the job is
            // released. So are jobs that were paused while the claim was under way.
            self.shared.health.ticking(self.reporter.report(ctx, Transition::Release)).await;
        }
        if number > 0 {
            crash_point("prefetched");
        }
        Ok(number)
    }

    /// Handles a failed claim. The database may have executed it although its reply was lost.
    async fn fail(&mut self, problem: &StorageError) {
        self.shared.claim_has_failed();
        self.warning.report(problem);
        self.back_off().await;
    }

    /// Waits for a free slot, or until few prefetched jobs are left, or for a new queue.
    async fn wait_for_room(&mut self) {
        self.shared.idleness.end();
        let prefetched = self.shared.queues.any_prefetched();
        let may_find_queues = self.shared.queues.have_patterns();
        if may_find_queues && !self.is_idle() && self.shared.leases.count() == 0 {
            // All queues that are known have no slots. A job of another one that was enqueued before the flag was
            // visible is found by a search.
            self.become_idle().await;
            self.shared.discovery_requested.notify_one();
        }
        let no_lease_held = self.until_empty && self.shared.leases.count() == 0;
        let (mut hinted, mut has_no_slot) = (false, false);
        let room = async {
            tokio::select! {
                () = self.shared.queues.capacity_changed() => {}
                () = self.shared.hint.notified(), if may_find_queues => {
                    hinted = true;
                    self.shared.discovery_requested.notify_one();
                }
                () = tokio::time::sleep(PREFETCHED_AT_MOST), if prefetched => {}
                () = tokio::time::sleep(self.shared.settings.poll), if no_lease_held => has_no_slot = true,
                // The attempt has ended, but perhaps not its handler, which keeps the slot.
                () = self.shared.leases.none_held(), if self.until_empty && !no_lease_held => {}
                () = self.shared.phases.quiet().cancelled() => {}
            }
        };
        self.shared.health.ticking(room).await;
        // A known queue may have it, too.
        self.hinted |= hinted;
        // An operator has set the slots to 0, or handlers that do not return occupy them.
        if has_no_slot && self.shared.leases.count() == 0 {
            self.shared.phases.draining().cancel();
            telemetry::no_slot_left();
        }
    }

    /// Releases all prefetched jobs of each queue in which one of them has waited this long. If a long job occupies the
    /// slot, they would wait for its end, while other workers may have free slots. They have not started, so no attempt
    /// is consumed.
    async fn release_overdue(&self, waited: Duration) {
        for ctx in self.shared.queues.overdue(waited) {
            // `report` waits while too many finishes wait for an unreachable database.
            self.shared.health.ticking(self.reporter.report(ctx, Transition::Release)).await;
        }
    }

    async fn back_off(&mut self) {
        // A failover may have lost the flag.
        self.idle = None;
        self.shared.idleness.end();
        let pause = self.pause.mul_f64(rand::random_range(0.5..1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.shared.phases.quiet().cancelled() => {}
        }
    }
}
