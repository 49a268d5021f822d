//! Finishes whose rows another session has locked: the session of an operator, or a handler whose transaction is still
//! open or only prepared after `complete_in`. They are tried again until the lock is released. No other finish waits
//! for them.

use std::time::{Duration, Instant};

use super::report::Report;
use crate::telemetry;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A lock that is held for longer than this is logged, once for each job.
const UNUSUAL: Duration = Duration::from_secs(5);

/// A finish whose row another session has locked.
struct Waiting {
    report: Report,
    since: Instant,
    logged: bool,
}

/// All finishes whose rows other sessions have locked.
pub(super) struct Locked {
    waiting: Vec<Waiting>,
    pause: Duration,
    /// When they are tried again.
    again: Instant,
}

impl Locked {
    pub(super) fn new() -> Self {
        Self { waiting: Vec::new(), pause: FIRST_PAUSE, again: Instant::now() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When to try again. `None` if there is no such finish.
    pub(super) fn again(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.again)
    }

    /// Adds a finish whose row another session has locked.
    pub(super) fn add(&mut self, report: Report, since: Instant) {
        if self.is_empty() {
            self.pause = FIRST_PAUSE;
        }
        self.again = Instant::now() + self.pause;
        self.waiting.push(Waiting { report, since, logged: false });
    }

    /// The finishes to try now, all of them.
    pub(super) fn reports(&self) -> Vec<Report> {
        self.waiting.iter().map(|waiting| waiting.report.clone()).collect()
    }

    /// Records a try: keeps the finishes that are still locked and drops all others.
    pub(super) fn tried(&mut self, still_locked: &[Report]) {
        let ended = self.waiting.len() - still_locked.len();
        self.waiting.retain(|one| still_locked.iter().any(|report| report.ctx.lease() == one.report.ctx.lease()));
        for one in self.waiting.iter_mut().filter(|one| !one.logged && one.since.elapsed() > UNUSUAL) {
            one.logged = true;
            telemetry::row_locked(&one.report.ctx, one.report.transition.name(), one.since.elapsed());
        }
        self.pause = if ended > 0 { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        self.again = Instant::now() + self.pause;
    }
}
