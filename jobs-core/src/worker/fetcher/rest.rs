//! What the fetcher waits for after a claim that brought nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{CONTENTION_BACKOFF, FIRST_LOOK, Fetcher, MOST_BACKOFF_STEPS, PREFETCHED_AT_MOST};
use crate::storage::{Claim, RescanReason, Rescanned};
use crate::worker::runner;

/// What ends a wait, besides a hint and the events that this process itself knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeOn {
    /// A freed slot ends it, because the claim did not ask for all queues.
    pub(super) slot: bool,
    /// The end of this worker's last job ends it.
    pub(super) last_end: bool,
}

impl Fetcher {
    /// Sleeps until there is a reason to claim: a hint, a freed slot of a queue that was full, or a job that becomes
    /// due. Each poll asks only for the next due time, which is one cheap statement. A worker that runs until nothing
    /// is left also polls when its last job has ended.
    pub(super) async fn rest(&mut self, claim: &Claim, wake_on: WakeOn, nothing_of_ours: bool) {
        let mut looked_for = claim.clone();
        if self.until_empty {
            // Quarantined jobs count as left over, too.
            looked_for.quarantined_at = u16::MAX;
        }
        loop {
            // The claim already consumed the notification of a slot that was freed while it was under way.
            if self.shared.queues.wants_others_than(&claim.wanted) {
                return;
            }
            let poll = self.shared.settings.poll;
            let within = if self.until_empty { Duration::MAX } else { poll };
            let due = match self.shared.storage.next_due(&looked_for, within).await {
                Ok(None) if self.until_empty && nothing_of_ours => {
                    return self.end_if_nothing_is_left(&looked_for).await;
                }
                Ok(due) => due,
                Err(problem) => {
                    self.warning.report(&problem);
                    return self.back_off().await;
                }
            };
            // Each turn checks the age of prefetched jobs, so the sleep must be short while there are any.
            let prefetched = self.shared.queues.any_prefetched();
            let longest = if prefetched { PREFETCHED_AT_MOST } else { Duration::MAX };
            if due.is_some_and(|due| due.is_zero()) {
                self.shared.quarantined.fetch_or(self.until_empty, Ordering::AcqRel);
                // A job that became due after the claim is claimed at once. A due job that cannot be claimed is left to
                // other workers.
                let pause = CONTENTION_BACKOFF * 2_u32.pow(self.contention.saturating_sub(1));
                if self.contention > 0 {
                    let pause = pause.mul_f64(rand::random_range(0.5..1.5)).min(longest);
                    self.reason_within(pause, wake_on).await;
                }
                self.contention = MOST_BACKOFF_STEPS.min(self.contention + 1);
                self.contended_since.get_or_insert_with(Instant::now);
                return;
            }
            self.contended_since = None;
            self.contention = 0;
            if !self.idle {
                // Set the flag, then poll once more. That poll finds the jobs that were enqueued before the flag was
                // visible.
                self.idle = self.set_idle(true).await;
                self.idle_since = Instant::now();
                if self.idle {
                    return;
                }
            }
            let poll = poll.mul_f64(rand::random_range(0.8..1.0));
            let look = poll.min(self.idle_since.elapsed().max(FIRST_LOOK));
            if look < poll {
                // A transaction that does not wake this worker may have been open for longer than the lag of the scan
                // floors. Only a rescan finds its jobs.
                self.shared.claimed.notify_one();
            }
            let time = due.map_or(look, |due| due.min(look)).min(longest);
            let reason = self.reason_within(time, wake_on).await;
            if reason || prefetched || time < look {
                return;
            }
        }
    }

    /// Claims found nothing, but they do not see all jobs. So a rescan must confirm that no job is left.
    async fn end_if_nothing_is_left(&mut self, looked_for: &Claim) {
        match self.shared.storage.rescan(looked_for, RescanReason::CameBack).await {
            Ok(Rescanned::Nothing) => self.shared.phases.draining().cancel(),
            Ok(Rescanned::Found) => {}
            Ok(Rescanned::Refused) => self.back_off().await,
            Err(problem) => {
                self.warning.report(&problem);
                self.back_off().await;
            }
        }
    }

    /// Returns whether a reason to claim came before the time was over.
    pub(super) async fn reason_within(&mut self, time: Duration, wake_on: WakeOn) -> bool {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        loop {
            tokio::select! {
                () = self.shared.wake.notified() => return true,
                () = self.shared.hint.notified() => {
                    self.hinted = true;
                    return true;
                }
                () = self.shared.queues.capacity_changed() => {
                    runner::start(&self.shared, &self.reporter);
                    if wake_on.slot {
                        return true;
                    }
                }
                () = self.shared.leases.none_held(), if wake_on.last_end => return true,
                () = &mut over => return false,
                () = self.shared.phases.draining().cancelled() => return true,
            }
        }
    }
}
