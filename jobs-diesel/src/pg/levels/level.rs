//! What a worker knows about one level.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::Scan;

/// For this long after a claim that began at the floor, a claim that follows a full one begins where that one stopped.
/// A job that commits below that place is older than the jobs that such claims take. It waits for the next claim that
/// begins at the floor.
pub(super) const GO_ON: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Level {
    pub(super) floor: DateTime<Utc>,
    /// If the last claim was full: the last job that it took, and when a claim last began at the floor.
    pub(super) left_off: Option<(DateTime<Utc>, Instant)>,
    /// What the last rescan found here.
    pub(super) straggler: Option<(DateTime<Utc>, i64)>,
    /// Claims try every row, because two rescans in a row have found the same job.
    pub(super) try_all_rows: bool,
    pub(super) used: Instant,
    /// A claim has found no more jobs here.
    pub(super) is_empty: bool,
}

/// Which levels claims read if there are too many: those that may have jobs, then the most recently used ones, then
/// those of the highest priority.
pub(super) type Rank = (bool, Instant, i16);

impl Level {
    /// A level that was just found.
    pub(super) fn new(floor: DateTime<Utc>, at: Instant) -> Self {
        Self { floor, left_off: None, straggler: None, try_all_rows: false, used: at, is_empty: false }
    }

    pub(super) fn rank(&self, priority: i16) -> Rank {
        (!self.is_empty, self.used, priority)
    }

    /// Records that there is a job here.
    pub(super) fn use_at(&mut self, at: Instant) {
        (self.used, self.is_empty) = (at, false);
    }

    pub(super) fn goes_on(&self, at: Instant) -> Option<DateTime<Utc>> {
        let (last, began) = self.left_off?;
        (at.duration_since(began) < GO_ON && last > self.floor).then_some(last)
    }

    /// Records the last job of a full claim. Only a claim that began at the floor can move the floor.
    pub(super) fn leave_off(&mut self, scan: &Scan, last: DateTime<Utc>, highest_floor: DateTime<Utc>, at: Instant) {
        let began = match (scan.go_on, self.left_off) {
            (None, _) => {
                self.floor = last.min(highest_floor);
                at
            }
            (Some(_), Some((_, began))) => began,
            (Some(_), None) => return,
        };
        self.left_off = Some((last, began));
    }

    /// Records that there is nothing from where the scan began.
    pub(super) fn empty(&mut self, scan: &Scan, highest_floor: DateTime<Utc>) {
        (self.left_off, self.is_empty) = (None, true);
        if scan.go_on.is_none() {
            (self.floor, self.try_all_rows) = (highest_floor, false);
        }
    }
}
