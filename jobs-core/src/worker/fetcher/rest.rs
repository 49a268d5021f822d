//! The fetcher's rest: what it waits for when a claim has brought nothing.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{CONTENTION_BACKOFF, FIRST_LOOK, Fetcher, HELD_AT_MOST, MOST_BACKOFF_STEPS};
use crate::storage::{Claim, RescanReason, Rescanned};
use crate::worker::runner;

/// What ends a wait, beside a hint and what this process itself knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeOn {
    /// A slot became free, and not all queues were asked for.
    pub(super) slot: bool,
    /// The last job of this worker ended.
    pub(super) last_end: bool,
}

impl Fetcher {
    /// Sleeps until there is a reason to claim: a hint, a freed slot of a queue that was full, a job that is due. Each poll
    /// asks only for the next due time, one cheap statement. A worker that runs until nothing is left also looks again
    /// when its last job has ended.
    pub(super) async fn rest(&mut self, claim: &Claim, wake_on: WakeOn, nothing_of_ours: bool) {
        let mut looked_for = claim.clone();
        if self.until_empty {
            // Quarantined jobs are something left, too.
            looked_for.quarantined_at = u16::MAX;
        }
        loop {
            // A slot freed while the claim was under way has had its say there.
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
            // What is prefetched is looked after at each turn.
            let prefetched = self.shared.queues.any_prefetched();
            let longest = if prefetched { HELD_AT_MOST } else { Duration::MAX };
            if due.is_some_and(|due| due.is_zero()) {
                self.shared.quarantined.fetch_or(self.until_empty, Ordering::AcqRel);
                // What came due since the claim is claimed at once; what is due and not to be had is left to others.
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
                // Raise the flag, then look once more: what was enqueued before the flag was seen is found by that look.
                self.idle = self.set_idle(true).await;
                self.idle_since = Instant::now();
                if self.idle {
                    return;
                }
            }
            let poll = poll.mul_f64(rand::random_range(0.8..1.0));
            let look = poll.min(self.idle_since.elapsed().max(FIRST_LOOK));
            if look < poll {
                // Such a transaction may have been open for longer than the scan floors wait.
                self.shared.claimed.notify_one();
            }
            let time = due.map_or(look, |due| due.min(look)).min(longest);
            let reason = self.reason_within(time, wake_on).await;
            if reason || prefetched || time < look {
                return;
            }
        }
    }

    /// Nothing is to be seen; but claims do not see everything.
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

    /// Whether a reason to claim came before the time was over.
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
