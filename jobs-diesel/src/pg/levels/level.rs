//! What a worker knows about one level.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::Scan;

/// After a full claim, the next claims resume at its last job, until this time has passed since a claim began at the
/// floor. A job that commits below that point should run earlier than the jobs of these claims. It waits for the next
/// claim that begins at the floor.
pub(super) const RESUME_WITHIN: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Level {
    pub(super) floor: DateTime<Utc>,
    /// If the last claim was full: the last job that it took, and when a claim last began at the floor.
    pub(super) stopped_at: Option<(DateTime<Utc>, Instant)>,
    /// What the last rescan found here.
    pub(super) straggler: Option<(DateTime<Utc>, i64)>,
    /// Claims try every row, because two rescans in a row have found the same job.
    pub(super) try_all_rows: bool,
    pub(super) used: Instant,
    /// A claim has found no more jobs here.
    pub(super) is_empty: bool,
}

/// Decides which levels claims read if there are too many. Levels that may have jobs come first, then the most recently
/// used ones, then those of the highest priority.
pub(super) type Rank = (bool, Instant, i16);

impl Level {
    /// A level that was just found.
    pub(super) fn new(floor: DateTime<Utc>, at: Instant) -> Self {
        Self { floor, stopped_at: None, straggler: None, try_all_rows: false, used: at, is_empty: false }
    }

    pub(super) fn rank(&self, priority: i16) -> Rank {
        (!self.is_empty, self.used, priority)
    }

    /// Records that there is a job here.
    pub(super) fn note_job(&mut self, at: Instant) {
        (self.used, self.is_empty) = (at, false);
    }

    /// Where a claim resumes, if the last claim was full a moment ago.
    pub(super) fn resume_at(&self, at: Instant) -> Option<DateTime<Utc>> {
        let (last, began) = self.stopped_at?;
        (at.duration_since(began) < RESUME_WITHIN && last > self.floor).then_some(last)
    }

    /// Records the last job of a full claim. Only a claim that began at the floor can move the floor.
    pub(super) fn note_full_claim(
        &mut self,
        scan: &Scan,
        last: DateTime<Utc>,
        highest_floor: DateTime<Utc>,
        at: Instant,
    ) {
        let began = match (scan.resume_at, self.stopped_at) {
            (None, _) => {
                self.floor = last.min(highest_floor);
                at
            }
            (Some(_), Some((_, began))) => began,
            (Some(_), None) => return,
        };
        self.stopped_at = Some((last, began));
    }

    /// Records that the scan found nothing.
    pub(super) fn empty(&mut self, scan: &Scan, highest_floor: DateTime<Utc>) {
        (self.stopped_at, self.is_empty) = (None, true);
        if scan.resume_at.is_none() {
            (self.floor, self.try_all_rows) = (highest_floor, false);
        }
    }
}
