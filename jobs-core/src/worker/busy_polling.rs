//! Whether jobs come in so fast that being woken for each is a burden: a notification holds a lock that all commits of the
//! server share. A worker that polls busily looks often instead and needs no waking.

use std::time::{Duration, Instant};

/// What a judgement is based on, and how long it holds.
const WINDOW: Duration = Duration::from_millis(250);
/// Claims that bring jobs, closer together than this, begin busy polling.
const APART: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct BusyPolling {
    since: Instant,
    finds: u32,
    bustling: bool,
}

impl BusyPolling {
    /// Between two looks of a worker that polls busily and finds nothing.
    pub(super) const PAUSE: Duration = Duration::from_millis(2);

    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, finds: 0, bustling: false }
    }

    /// After a claim; `found`: it brought jobs. Answers whether to poll busily.
    pub(super) fn after_claim(&mut self, found: bool, now: Instant) -> bool {
        self.finds += u32::from(found);
        let time = now.duration_since(self.since);
        if time >= WINDOW {
            *self = Self { since: now, finds: 0, bustling: time <= APART * self.finds };
        }
        self.bustling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pause: Duration, found: bool, claims: u32) -> bool {
        let mut now = Instant::now();
        let mut busy_polling = BusyPolling::new(now);
        let mut bustling = false;
        for _ in 0..claims {
            now += pause;
            bustling = busy_polling.after_claim(found, now);
        }
        bustling
    }

    #[test]
    fn a_hundred_finds_a_second_begin_busy_polling() {
        assert!(after(Duration::from_millis(9), true, 60));
        assert!(!after(Duration::from_millis(20), true, 60));
        assert!(!after(Duration::from_millis(2), false, 600), "looks that find nothing are none");
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
