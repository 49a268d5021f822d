//! What the statements that look for jobs are told: where to look, in which order, and from where.

use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, Utc};
#[cfg(doc)]
use diesel_jobs_core::storage::Claim;

/// A part of one queue for a statement to look at: one level (`hi` = `lo`), or the gap strictly between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The queue's place in [`Claim::wanted`].
    pub(crate) queue: usize,
    pub(crate) hi: i32,
    pub(crate) lo: i32,
    /// `None`: nothing is known; look at what is younger than the lag.
    pub(crate) floor: Option<DateTime<Utc>>,
    /// Where to begin instead: what lies between was looked at a moment ago.
    pub(crate) go_on: Option<DateTime<Utc>>,
    /// Try every row, also those that seem to be another's.
    pub(crate) thorough: bool,
}

impl Scan {
    pub(crate) fn begin(&self) -> Option<DateTime<Utc>> {
        self.go_on.or(self.floor)
    }

    pub(super) fn level(&self) -> Option<i16> {
        if self.hi == self.lo { i16::try_from(self.hi).ok() } else { None }
    }
}

/// What a statement looks at, best first within each queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) scans: Vec<Scan>,
    /// Which of them belong to each queue of [`Claim::wanted`].
    pub(crate) of_queue: Vec<Range<usize>>,
    /// How far behind the clock scans without a floor begin.
    pub(crate) lag: Duration,
}

/// See [`Plan::only_level`].
pub(crate) struct OnlyLevel {
    pub(crate) priority: i16,
    pub(crate) floor: DateTime<Utc>,
    /// Whether claims look at what stands above it, too.
    pub(crate) gap_above: bool,
}

impl Plan {
    /// Whether a part of what is above a floor is left out.
    pub(crate) fn goes_on(&self) -> bool {
        self.scans.iter().any(|scan| scan.go_on.is_some())
    }

    /// The level, where there is one and nothing special about it.
    pub(crate) fn only_level(&self) -> Option<OnlyLevel> {
        let mut levels = self.scans.iter().filter_map(|scan| Some((scan, scan.level()?)));
        let (Some((scan, priority)), None) = (levels.next(), levels.next()) else { return None };
        let floor = scan.floor.filter(|_| scan.go_on.is_none() && !scan.thorough)?;
        let gap_above = self.scans.first().is_some_and(|scan| scan.level().is_none());
        Some(OnlyLevel { priority, floor, gap_above })
    }

    /// Only its gaps.
    pub(crate) fn gaps(&self) -> Self {
        self.only(|scan| scan.hi != scan.lo)
    }

    /// Only its levels.
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
