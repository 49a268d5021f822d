//! What a process counts, and how it reports that.

use std::time::{Duration, Instant};

use crate::say::say;

/// The time between two reports of the totals.
const REPORT_INTERVAL: Duration = Duration::from_millis(5);

/// What one process has done.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) ended: u64,
    pub(super) conflicts: u64,
    told: (u64, u64),
    at: Instant,
}

impl Totals {
    pub(super) fn new() -> Self {
        Self { ended: 0, conflicts: 0, told: (0, 0), at: Instant::now() }
    }

    /// Tells the parent the totals, unless it was told them a moment ago.
    pub(super) fn tell_if_due(&mut self) {
        if self.at.elapsed() >= REPORT_INTERVAL {
            self.tell();
        }
    }

    /// Tells the parent the totals that have changed.
    pub(super) fn tell(&mut self) {
        if self.ended != self.told.0 {
            say(&format!("completed {}", self.ended));
        }
        if self.conflicts != self.told.1 {
            say(&format!("conflicts {}", self.conflicts));
        }
        self.told = (self.ended, self.conflicts);
        self.at = Instant::now();
    }
}
