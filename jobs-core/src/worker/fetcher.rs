//! The fetcher: one per process, claims for all its queues whenever slots are free or hands are nearly empty, and sleeps
//! when nothing is there.

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

/// A worker that has said that it sleeps looks again so soon, and then after twice the time: transactions that are about to commit
/// were begun before it said so, and will not wake it.
const FIRST_LOOK: Duration = Duration::from_millis(5);
/// A worker busy for this long stops asking to be woken.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// A prefetched job waits at most about this long; then others may have it.
const HELD_AT_MOST: Duration = Duration::from_millis(250);
/// The sleep while jobs are due and cannot be had, because others hold their rows or too many look at once. It is twice as
/// long each time, so that a crowd of workers does not spend its time on asking.
const CONTENTION_BACKOFF: Duration = Duration::from_millis(5);
/// After so many such looks it is 1.28 s, and stays so.
const MOST_BACKOFF_STEPS: u32 = 9;
/// After so long in vain the worker looks although others are at it: they may be stopped.
const INSIST_AFTER: Duration = Duration::from_secs(10);
/// The heartbeat locks the worker's row for a moment, too: that the idle flag could not be written is logged only if it lasts for
/// longer than this.
const UNTOLD: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

struct Fetcher {
    shared: Arc<Shared>,
    reporter: Reporter,
    kinds: Arc<[String]>,
    until_empty: bool,
    /// Whether the storage was told that this worker sleeps.
    idle: bool,
    /// Since when it was told so.
    idle_since: Instant,
    /// Since when it could not be told.
    untold_since: Option<Instant>,
    /// The storage said that there is work, and no claim has been made since.
    hinted: bool,
    busy_since: Option<Instant>,
    busy_polling: BusyPolling,
    /// How hard it is to get what is due: one more for each look that finds a job which the claim before did not bring, two
    /// less for each claim that brings some. A worker in a crowd keeps about the right distance.
    contention: u32,
    /// Since when only such looks.
    contended_since: Option<Instant>,
    pause: Duration,
    warning: RateLimitedWarning,
    idle_warning: RateLimitedWarning,
}

/// Runs until the worker drains; what is then prefetched goes back.
pub(super) async fn run(shared: Arc<Shared>, reporter: Reporter, until_empty: bool) {
    let kinds = shared.registry.kinds().into();
    let mut fetcher = Fetcher {
        shared,
        reporter,
        kinds,
        until_empty,
        idle: false,
        idle_since: Instant::now(),
        untold_since: None,
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
    /// One look, and whatever wait it calls for.
    async fn turn(&mut self) {
        runner::start(&self.shared, &self.reporter);
        self.give_back(HELD_AT_MOST).await;
        if self.shared.quarantined.swap(false, Ordering::AcqRel) {
            match quarantined::run_one(&self.shared, &self.reporter, &self.wants()).await {
                // There may be more; but they are not all there is.
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
            // Another worker has it, or it stands where claims do not look.
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

    /// What there is room for now.
    fn wants(&self) -> Claim {
        let bypass_limit = self.contended_since.is_some_and(|since| since.elapsed() > INSIST_AFTER);
        let (worker, wanted) = (*self.shared.id.borrow(), self.shared.queues.wanted());
        let quarantined_at = self.shared.settings.rescue_policy(false).quarantined_at();
        Claim { bypass_limit, quarantined_at, ..Claim::new(worker, wanted, self.kinds.clone()) }
    }

    /// Claims, and queues what that brings; answers how many jobs.
    async fn claim(&self, claim: &Claim) -> StorageResult<usize> {
        let _claiming = self.shared.claiming.lock().await;
        crash_point("claim");
        let mut claim = std::pin::pin!(self.shared.storage.claim(claim));
        let jobs = loop {
            tokio::select! {
                biased;
                jobs = &mut claim => break jobs?,
                // What is prefetched need not wait for the claim.
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
            // Asked for were served queues only; should a storage ever hand out another, it goes back.
            self.reporter.report(ctx, Transition::Release).await;
        }
        if number > 0 {
            crash_point("in-hand");
        }
        Ok(number)
    }

    /// A claim failed. It may have been granted, and only its answer lost.
    async fn fail(&mut self, problem: &StorageError) {
        self.shared.needs_reconcile.store(true, Ordering::Release);
        self.warning.report(problem);
        self.back_off().await;
    }

    /// After a while without sleep, or while it polls busily, enqueues need not wake this worker any more.
    async fn stay_awake(&mut self, busy_polling: bool) {
        let busy = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if self.idle && (busy_polling || busy > BUSY_AFTER) {
            self.idle = !self.set_idle(false).await;
        }
    }

    /// Returns whether the storage knows.
    async fn set_idle(&mut self, idle: bool) -> bool {
        let id = *self.shared.id.borrow();
        let told = self.shared.storage.set_idle(id, idle).await;
        self.untold_since = told.is_err().then(|| self.untold_since.unwrap_or_else(Instant::now));
        if let Err(problem) = &told
            && self.untold_since.is_some_and(|since| since.elapsed() > UNTOLD)
        {
            self.idle_warning.report(problem);
        }
        told.is_ok()
    }

    /// Waits for a free slot or a nearly empty hand.
    async fn wait_for_room(&self) {
        let prefetched = self.shared.queues.any_prefetched();
        tokio::select! {
            () = self.shared.queues.capacity_changed() => {}
            () = tokio::time::sleep(HELD_AT_MOST), if prefetched => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }

    /// Prefetched jobs that have waited this long go back: behind a long job they would wait for it, and other workers may
    /// have nothing to do. They have not started, so no attempt is consumed.
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
