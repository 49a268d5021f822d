//! The input of the statements that search for jobs: what to read, in which order, and from which `run_at` on.

use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, Utc};
#[cfg(doc)]
use diesel_jobs_core::storage::Claim;

/// A part of one queue for a statement to read: one level (`hi` = `lo`), or the gap strictly between `hi` and `lo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The index of the queue in [`Claim::wanted`].
    pub(crate) queue: usize,
    pub(crate) hi: i32,
    pub(crate) lo: i32,
    /// `None`: nothing is known, so only entries younger than the lag are read.
    pub(crate) floor: Option<DateTime<Utc>>,
    /// Begin here instead of at the floor. Earlier claims have just read the entries in between.
    pub(crate) resume_at: Option<DateTime<Utc>>,
    /// Try every row, including rows that another transaction seems to hold.
    pub(crate) try_all_rows: bool,
}

impl Scan {
    pub(crate) fn begin(&self) -> Option<DateTime<Utc>> {
        self.resume_at.or(self.floor)
    }

    pub(super) fn level(&self) -> Option<i16> {
        if self.hi == self.lo { i16::try_from(self.hi).ok() } else { None }
    }
}

/// What a statement reads, best first within each queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) scans: Vec<Scan>,
    /// Which scans belong to each queue of [`Claim::wanted`].
    pub(crate) of_queue: Vec<Range<usize>>,
    /// How far behind the clock a scan without a floor begins.
    pub(crate) lag: Duration,
}

/// See [`Plan::only_level`].
pub(crate) struct OnlyLevel {
    pub(crate) priority: i16,
    pub(crate) floor: DateTime<Utc>,
    /// Whether claims read the gap above the level, too.
    pub(crate) gap_above: bool,
}

impl Plan {
    /// Whether a scan begins above its floor.
    pub(crate) fn resumes(&self) -> bool {
        self.scans.iter().any(|scan| scan.resume_at.is_some())
    }

    /// The level, if there is only one and it needs no special treatment.
    pub(crate) fn only_level(&self) -> Option<OnlyLevel> {
        let mut levels = self.scans.iter().filter_map(|scan| Some((scan, scan.level()?)));
        let (Some((scan, priority)), None) = (levels.next(), levels.next()) else { return None };
        let floor = scan.floor.filter(|_| scan.resume_at.is_none() && !scan.try_all_rows)?;
        let gap_above = self.scans.first().is_some_and(|scan| scan.level().is_none());
        Some(OnlyLevel { priority, floor, gap_above })
    }

    /// Only the gaps of this plan.
    pub(crate) fn gaps(&self) -> Self {
        self.only(|scan| scan.hi != scan.lo)
    }

    /// Only the levels of this plan.
    pub(crate) fn levels(&self) -> Self {
        self.only(|scan| scan.hi == scan.lo)
    }

    fn only(&self, these: impl Fn(&Scan) -> bool) -> Self {
        let mut plan = Self { lag: self.lag, ..Self::default() };
        for range in &self.of_queue {
            let begin = plan.scans.len();
            plan.scans.extend(self.scans[range.clone()].iter().filter(|scan| these(scan)));
            plan.of_queue.push(begin..plan.scans.len());
        }
        plan
    }
}
