//! The wait of the fetcher after a claim without jobs.
//!
//! The fetcher first sets the idle flag, so that enqueues notify this worker, and claims once more. Then it sleeps
//! until a notification arrives, the next job is due, or the poll interval is over. A transaction may have enqueued a
//! job before it could see the flag, and may commit after the second claim. It sends no notification. So the fetcher
//! first polls after 5 ms, and then twice as late each time, up to the poll interval, for at most 20 s. These early
//! polls also ask for a rescan.
//!
//! The polls that follow are those of an idle worker. Each also asks what else there is to do, and calls the services
//! that do it ([`Idleness`](crate::worker::idleness::Idleness)).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{CONTENTION_BACKOFF, FIRST_POLL, Fetcher, MOST_BACKOFF_STEPS, PREFETCHED_AT_MOST};
use crate::maintenance::settings_watcher;
use crate::outcome::Transition;
use crate::recorder::Event;
use crate::storage::{Claim, Polled, StorageResult, Upkeep, Waiting};
use crate::worker::bounds::{Bounds, Later};
use crate::worker::idleness::{Call, Since};
use crate::worker::runner;
use crate::worker::shared::Shared;

/// How long after the time that the last one has named a poll comes, so that the database's clock has surely passed it.
const MARGIN: Duration = Duration::from_millis(5);
/// The shortest time until a poll for which the last one has asked. A busy worker sweeps as often.
const BETWEEN_POLLS: Duration = Duration::from_millis(900);

/// Which events end a wait, besides a hint from the storage and `Shared::wake`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeOn {
    /// A freed slot ends the wait, because the claim did not ask for all queues.
    pub(super) slot: bool,
    /// The end of this worker's last job ends the wait.
    pub(super) last_end: bool,
}

impl Fetcher {
    /// Sleeps until there is a reason to claim: a hint, a freed slot of a queue that was full, or a job that becomes
    /// due. Each poll asks only for the next due time, which is one cheap statement. A worker that runs until no job is
    /// left also polls when its last job has ended.
    pub(super) async fn wait_for_work(&mut self, claim: &Claim, wake_on: WakeOn, no_lease_held: bool) {
        let mut wanted = claim.clone();
        if self.until_empty {
            // Quarantined jobs must be run, too.
            wanted.quarantined_at = u16::MAX;
        }
        loop {
            // The claim already consumed the notification of a slot that was freed while it was under way.
            if self.shared.queues.wants_others_than(&claim.wanted) {
                return;
            }
            let poll = self.shared.settings.poll;
            self.shared.settings.recorders.record(|| Event::Polled);
            let began = self.shared.idleness.now();
            let Polled { due, upkeep, is_notified } = match self.poll(&wanted, poll).await {
                Ok(Polled { due: None, .. }) if self.until_empty && no_lease_held => {
                    return self.end_if_nothing_is_left(&wanted).await;
                }
                Ok(polled) => polled,
                Err(problem) => {
                    self.shared.health.doubt();
                    self.warning.report(&problem);
                    return self.back_off().await;
                }
            };
            self.is_deaf = upkeep.is_some() && !is_notified;
            // Each round checks the age of prefetched jobs, so the sleep must be short while there are any.
            let prefetched = self.shared.queues.any_prefetched();
            let longest = if prefetched { PREFETCHED_AT_MOST } else { Duration::MAX };
            if due.is_some_and(|due| due.is_zero()) {
                self.shared.quarantined_due.fetch_or(self.until_empty, Ordering::AcqRel);
                // A job that became due after the claim is claimed at once. A due job that cannot be claimed is left to
                // other workers.
                let pause = CONTENTION_BACKOFF * 2_u32.pow(self.contention.saturating_sub(1));
                if self.contention > 0 {
                    self.shared.idleness.end();
                    self.shared.settings.recorders.record(|| Event::ClaimRefused);
                    let pause = pause.mul_f64(rand::random_range(0.5..1.5)).min(longest);
                    self.wait_for_reason(pause, wake_on).await;
                }
                self.contention = MOST_BACKOFF_STEPS.min(self.contention + 1);
                self.contended_since.get_or_insert_with(Instant::now);
                return;
            }
            self.contended_since = None;
            self.contention = 0;
            if no_lease_held
                && due.is_some()
                && let Some(Bounds { later: Later::Skip(operator), .. }) = &self.bounds
            {
                let operator = operator.clone();
                return self.skip_time(&*operator).await;
            }
            // After the flag is set, the fetcher claims once more. That claim finds the jobs that were enqueued before
            // the flag was visible.
            if !self.is_idle() && self.become_idle().await {
                return;
            }
            let poll = poll.mul_f64(rand::random_range(0.8..1.0));
            let idle_for = self.idle_since.elapsed();
            // The next poll after the early ones comes after the whole poll interval, also if that is much longer.
            let are_early = idle_for < self.shared.settings.early_polls;
            let next_poll = if are_early { poll.min(idle_for.max(FIRST_POLL)) } else { poll };
            let is_early = next_poll < poll;
            if is_early {
                // A transaction that does not wake this worker may have been open for longer than the lag of the scan
                // floors. Only a rescan finds its jobs.
                self.shared.routine_rescan_due.notify_one();
            }
            let time = due.map_or(next_poll, |due| due.min(next_poll)).min(longest);
            let upkeep = upkeep.filter(|_| !is_early);
            // Only a poll makes the worker idle, and the next one may be far away. So if a lease prevents it now, its
            // end ends the wait, also if it ends before the wait begins.
            let holds_lease = self.shared.leases.count() > 0;
            let frees = upkeep.is_some() && self.shared.settings.rests() && holds_lease;
            let upkeep_after = self.call_services(upkeep.filter(|_| !holds_lease), began).filter(|after| *after < time);
            let wake_on = WakeOn { last_end: wake_on.last_end || frees, ..wake_on };
            let reason = self.sleep(upkeep_after.unwrap_or(time), wake_on).await;
            if upkeep_after.is_some() && !reason {
                continue;
            }
            if reason || prefetched || time < next_poll {
                return;
            }
        }
    }

    /// Asks for the next due time, and what else there is to do.
    async fn poll(&mut self, wanted: &Claim, within: Duration) -> StorageResult<Polled> {
        let due = match self.until_empty {
            true => self.next_of_run(wanted).await,
            false if self.is_idle() => return self.shared.storage.poll(wanted, within).await,
            false => self.shared.storage.next_due(wanted, Waiting::Available { within }).await,
        };
        Ok(Polled { due: due?, ..Polled::default() })
    }

    /// Reads the settings before a claim, so that it brings no job of a queue or kind that was paused.
    pub(super) async fn read_settings(&self) -> StorageResult<()> {
        for ctx in settings_watcher::read(&self.shared).await? {
            self.shared.health.ticking(self.reporter.report(ctx, Transition::Release)).await;
        }
        Ok(())
    }

    /// Decides whether the worker is idle, and calls the services for which this poll has found work. Returns the time
    /// until there is more to do. The poll began then. Without an upkeep, the worker is not idle.
    fn call_services(&mut self, upkeep: Option<Upkeep>, began: Since) -> Option<Duration> {
        let Shared { idleness, settings, needs_reconcile, .. } = &*self.shared;
        let Some(upkeep) = upkeep.filter(|_| !needs_reconcile.load(Ordering::Acquire)) else {
            idleness.end();
            return None;
        };
        // This poll may have missed the change.
        let is_outdated = settings.rests() && idleness.is_called(began, &[Call::Changes]);
        idleness.begin(settings.rests() && !is_outdated);
        idleness.polled();
        if self.settings != Some(upkeep.settings) {
            self.settings = Some(upkeep.settings);
            idleness.call(Call::Changes);
        }
        if upkeep.rescue {
            idleness.call(Call::Rescue);
        }
        if upkeep.operation {
            idleness.call(Call::Operation);
        }
        if upkeep.sweep {
            idleness.call(Call::Sweep);
        }
        if upkeep.overdue {
            idleness.call(Call::Overdue);
        }
        let next = if is_outdated { Some(BETWEEN_POLLS) } else { upkeep.next };
        next.map(|next| next.saturating_add(MARGIN).max(BETWEEN_POLLS))
    }

    /// The same as [`wait_for_reason`](Self::wait_for_reason) after a claim that found nothing. Meanwhile finishes may
    /// claim the jobs to which they pass permits on ([`passing_on`](crate::worker::passing_on)).
    pub(super) async fn sleep(&mut self, time: Duration, wake_on: WakeOn) -> bool {
        self.shared.nothing_waits.set_asleep(!wake_on.slot && !self.until_empty);
        let reason = self.wait_for_reason(time, wake_on).await;
        self.shared.nothing_waits.set_asleep(false);
        reason
    }

    /// Waits for a reason to claim, at most this time. Returns whether there was one.
    async fn wait_for_reason(&mut self, time: Duration, wake_on: WakeOn) -> bool {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        let prefetched = self.shared.queues.any_prefetched();
        loop {
            self.shared.health.tick();
            tokio::select! {
                () = self.shared.wake.notified() => return true,
                () = self.shared.hint.notified() => {
                    self.hinted = true;
                    return true;
                }
                () = self.shared.queues.capacity_changed() => {
                    runner::start(&self.shared, &self.reporter);
                    // A finish may have claimed a job for which there is no slot. From now on its age must be checked.
                    if wake_on.slot || !prefetched && self.shared.queues.any_prefetched() {
                        return true;
                    }
                }
                () = self.shared.leases.none_held(), if wake_on.last_end => return true,
                () = &mut over => return false,
                () = self.shared.phases.quiet().cancelled() => return true,
            }
        }
    }
}
