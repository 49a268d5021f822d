//! The fetcher: one per process, claims for all its queues whenever slots are free or hands are nearly empty, and sleeps
//! when nothing is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::bustle::Bustle;
use super::completer::Reporter;
use super::crowd::Crowd;
use super::{Shared, runner};
use crate::outcome::Transition;
use crate::storage::{Claim, StorageResult};
use crate::telemetry::Trouble;

/// A worker busy for this long stops asking to be woken.
const BUSY_AFTER: Duration = Duration::from_secs(1);
/// A job waits in hand at most about this long; then others may have it.
const HELD_AT_MOST: Duration = Duration::from_millis(250);
/// The sleep while jobs are due and cannot be had: rows that others hold must not make it spin.
const HELD_BY_OTHERS: Duration = Duration::from_millis(10);
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
    bustle: Bustle,
    crowd: Crowd,
    /// Whether the last look found a job that is due, and the claim after it did not get it.
    in_vain: bool,
    pause: Duration,
    trouble: Trouble,
}

/// Runs until the worker drains; what is then in hand goes back.
pub(super) async fn run(shared: Arc<Shared>, reporter: Reporter, until_empty: bool) {
    let kinds = shared.registry.kinds().into();
    let mut fetcher = Fetcher {
        shared,
        reporter,
        kinds,
        until_empty,
        idle: false,
        busy_since: None,
        bustle: Bustle::new(Instant::now()),
        crowd: Crowd::new(),
        in_vain: false,
        pause: FIRST_PAUSE,
        trouble: Trouble::new("claim"),
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
        let wanted = self.shared.queues.wanted();
        if wanted.is_empty() {
            return self.wait_for_room().await;
        }
        // As the claim sees it: a slot freed while the claim is under way must end the sleep after it.
        let a_slot_matters = wanted.len() < self.shared.queues.len();
        let nothing_of_ours = self.shared.leases.count() == 0;
        let claim = Claim { worker: *self.shared.id.borrow(), wanted, kinds: self.kinds.clone() };
        let started = Instant::now();
        let claimed = match self.claim(&claim).await {
            Ok(jobs) => jobs,
            Err(problem) => {
                // It may have been granted, and only its answer lost.
                self.shared.doubt.store(true, Ordering::Release);
                self.trouble.report(&problem);
                return self.back_off().await;
            }
        };
        self.pause = FIRST_PAUSE;
        let bustle = self.bustle.after_claim(claimed > 0, Instant::now()) && !self.until_empty;
        let keep_away = self.crowd.after_claim(started.elapsed(), claimed);
        if claimed > 0 {
            self.in_vain = false;
            self.stay_awake(bustle).await;
            return self.keep_away(keep_away.mul_f64(rand::random_range(0.5..1.5))).await;
        }
        self.busy_since = None;
        if bustle && !self.idle {
            self.reason_within(Bustle::PAUSE, a_slot_matters, false).await;
            return;
        }
        if !self.idle {
            // Raise the flag, then look once more: what was enqueued before the flag was seen is found by that look.
            self.idle = self.set_idle(true).await;
            if self.idle {
                return;
            }
        }
        self.sleep(&claim, a_slot_matters, nothing_of_ours).await;
    }

    /// Claims, and takes in hand what that brings; answers how many jobs.
    async fn claim(&self, claim: &Claim) -> StorageResult<usize> {
        let _claiming = self.shared.claiming.lock().await;
        let mut claim = std::pin::pin!(self.shared.storage.claim(claim));
        let jobs = loop {
            tokio::select! {
                biased;
                jobs = &mut claim => break jobs?,
                // What is in hand need not wait for the claim.
                () = self.shared.queues.stirred() => runner::start(&self.shared, &self.reporter),
            }
        };
        self.shared.counters.count_claimed(jobs.len());
        let number = jobs.len();
        for ctx in self.shared.queues.push(self.shared.take(jobs)) {
            // Asked for were served queues only; should a storage ever hand out another, it goes back.
            self.reporter.report(ctx, Transition::Release).await;
        }
        Ok(number)
    }

    /// After a while without sleep, or in bustle, enqueues need not wake this worker any more.
    async fn stay_awake(&mut self, bustle: bool) {
        let busy = self.busy_since.get_or_insert_with(Instant::now).elapsed();
        if self.idle && (bustle || busy > BUSY_AFTER) {
            self.idle = !self.set_idle(false).await;
        }
    }

    /// Leaves the queues to others for a while, and works on what is in hand.
    async fn keep_away(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.shared.phases.draining().is_cancelled() {
            runner::start(&self.shared, &self.reporter);
            self.give_back(HELD_AT_MOST).await;
            tokio::select! {
                () = self.shared.queues.stirred() => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + HELD_AT_MOST).into()) => {}
                () = self.shared.phases.draining().cancelled() => {}
            }
        }
    }

    /// Returns whether the storage knows.
    async fn set_idle(&self, idle: bool) -> bool {
        let id = *self.shared.id.borrow();
        self.shared.storage.set_idle(id, idle).await.inspect_err(|problem| self.trouble.report(problem)).is_ok()
    }

    /// Waits for a free slot or a nearly empty hand.
    async fn wait_for_room(&self) {
        let in_hand = self.shared.queues.any_in_hand();
        tokio::select! {
            () = self.shared.queues.stirred() => {}
            () = tokio::time::sleep(HELD_AT_MOST), if in_hand => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }

    /// Jobs in hand that have waited this long go back: behind a long job they would wait for it, and other workers may
    /// have nothing to do. They have not started, so no attempt is consumed.
    async fn give_back(&self, waited: Duration) {
        for ctx in self.shared.queues.overdue(waited) {
            self.reporter.report(ctx, Transition::Release).await;
        }
    }

    /// Sleeps until there is a reason to claim: a hint, a freed slot of a queue that was full, a job that is due. Each poll
    /// asks only for the next due time, one cheap statement. A worker that runs until nothing is left also looks again
    /// when its last job has ended.
    async fn sleep(&mut self, claim: &Claim, a_slot_matters: bool, nothing_of_ours: bool) {
        let mut polled = false;
        loop {
            let due = match self.shared.storage.next_due(claim).await {
                Ok(None) if self.until_empty && nothing_of_ours => return self.shared.phases.draining().cancel(),
                Ok(due) => due,
                Err(problem) => {
                    self.trouble.report(&problem);
                    return self.back_off().await;
                }
            };
            // What came due since the claim is claimed at once; what is due and not to be had is left to its holders.
            let due_now = due.is_some_and(|due| due.is_zero());
            let claim_it = due_now && (polled || !self.in_vain);
            self.in_vain = due_now;
            if claim_it {
                return;
            }
            let poll = self.shared.settings.poll.mul_f64(rand::random_range(0.8..1.0));
            let time = due.map_or(poll, |due| if due_now { HELD_BY_OTHERS } else { due }.min(poll));
            // What is in hand is looked after at each turn.
            let in_hand = self.shared.queues.any_in_hand();
            let time = if in_hand { time.min(HELD_AT_MOST) } else { time };
            let reason = self.reason_within(time, a_slot_matters, self.until_empty && !nothing_of_ours).await;
            if reason || in_hand || time < poll {
                return;
            }
            polled = true;
        }
    }

    /// Whether a reason to claim came before the time was over.
    async fn reason_within(&self, time: Duration, a_slot_matters: bool, an_end_matters: bool) -> bool {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        loop {
            tokio::select! {
                () = self.shared.wake.notified() => return true,
                () = self.shared.queues.stirred() => {
                    runner::start(&self.shared, &self.reporter);
                    if a_slot_matters {
                        return true;
                    }
                }
                () = self.shared.leases.none_held(), if an_end_matters => return true,
                () = &mut over => return false,
                () = self.shared.phases.draining().cancelled() => return true,
            }
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
