//! Decides whether jobs are enqueued so fast that a notification for each would cost too much. A notification holds a
//! lock that all commits of the server share. A worker that busy-polls claims often instead, and needs no
//! notifications.

use std::time::{Duration, Instant};

/// How long claims are counted for one decision, and how long the decision holds.
const WINDOW: Duration = Duration::from_millis(250);
/// Busy polling begins when the claims that bring jobs are, on average, no farther apart than this.
const APART: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct BusyPolling {
    since: Instant,
    finds: u32,
    polls_busily: bool,
}

impl BusyPolling {
    /// How long a worker that busy-polls waits after it found nothing.
    pub(super) const PAUSE: Duration = Duration::from_millis(2);

    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, finds: 0, polls_busily: false }
    }

    /// Counts a claim; `found`: it brought jobs. Returns whether to busy-poll.
    pub(super) fn after_claim(&mut self, found: bool, now: Instant) -> bool {
        self.finds += u32::from(found);
        let time = now.duration_since(self.since);
        if time >= WINDOW {
            *self = Self { since: now, finds: 0, polls_busily: time <= APART * self.finds };
        }
        self.polls_busily
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pause: Duration, found: bool, claims: u32) -> bool {
        let mut now = Instant::now();
        let mut busy_polling = BusyPolling::new(now);
        let mut polls_busily = false;
        for _ in 0..claims {
            now += pause;
            polls_busily = busy_polling.after_claim(found, now);
        }
        polls_busily
    }

    #[test]
    fn a_hundred_finds_a_second_begin_busy_polling() {
        assert!(after(Duration::from_millis(9), true, 60));
        assert!(!after(Duration::from_millis(20), true, 60));
        assert!(!after(Duration::from_millis(2), false, 600), "claims without jobs do not count");
    }

    #[test]
    fn it_ends_within_the_next_window() {
        let mut now = Instant::now();
        let mut busy_polling = BusyPolling::new(now);
        while !busy_polling.after_claim(true, now) {
            now += Duration::from_millis(1);
        }
        assert!(busy_polling.after_claim(false, now + Duration::from_millis(249)));
        assert!(!busy_polling.after_claim(false, now + Duration::from_millis(251)));
    }
}
