//! Where the next claim starts to look. A *level* is one priority of one queue; its *scan floor* is the `run_at` below which
//! claims do not look any more.
//!
//! Without floors a claim walks over every index entry that it can do nothing with: jobs claimed before that no vacuum could
//! remove yet (one forgotten transaction with an old snapshot, and that is all that was done since), jobs of kinds that this
//! program does not know, and jobs of transactions that have not committed.
//!
//! A floor follows the database's clock at a distance, the [lag](super::lag). It may pass jobs: a transaction that was open
//! for longer than the lag commits below it, and jobs that are rescued or given back return to their old place. These
//! *stragglers* are found by a [rescan](super::queries::rescan) beside the claims, about every second; it lowers the floor to
//! what it found. So: without rescans, jobs would be lost from sight; without the lag, jobs would only start late.
//!
//! A claim that got all it wanted leaves off in the middle of a level. For 50 ms the next ones go on from there and not from
//! the floor: while a backlog is drained faster than the lag passes, all that was claimed lies between the two.
//!
//! Priorities that this worker does not know stand in the *gaps* between its levels. A claim tries the gaps, too, while that is
//! cheap; whether it is, the [discovery](super::queries::discover) of each rescan measures.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::Claim;

mod level;
mod plan;

use super::lag::Lag;
use super::many_queues::ManyQueues;
use super::unchanged::Unchanged;
use level::Level;
pub(crate) use plan::{OnlyLevel, Plan, Scan};

/// A level that nothing was found in for this long is forgotten; should it be used again, it is found again.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Levels of one queue that a claim looks at. Beyond them jobs are found by a rescan.
const MOST_LEVELS: usize = 64;
/// A claim tries the gaps while all of them together take no longer than this.
const CHEAP: Duration = Duration::from_millis(8);
/// The database's clock may be set back by its host. Beyond this step nothing known about levels holds any more.
const STEP_BACK: TimeDelta = TimeDelta::seconds(1);

/// Stands for all queues among those that are paused, while the database is frozen. None has this name.
pub(crate) const ALL_QUEUES: &str = "";

/// Just beyond all priorities.
const ABOVE: i32 = i16::MAX as i32 + 1;
const BELOW: i32 = i16::MIN as i32 - 1;

/// One claimed job, as far as floors go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) queue: &'a str,
    pub(crate) priority: i16,
    pub(crate) run_at: DateTime<Utc>,
}

/// The first job below a floor.
#[derive(Debug)]
pub(crate) struct Straggler {
    pub(crate) queue: String,
    pub(crate) priority: i16,
    pub(crate) run_at: DateTime<Utc>,
    pub(crate) id: i64,
}

/// What one worker knows.
#[derive(Debug)]
pub(crate) struct Levels {
    used: Instant,
    queues: HashMap<String, BTreeMap<i16, Level>>,
    paused: HashSet<String>,
    pub(crate) lag: Lag,
    pub(crate) many: ManyQueues,
    /// The newest time of the database that this worker has seen.
    clock: Option<DateTime<Utc>>,
    /// Whether a first rescan was made or tried.
    begun: bool,
    try_gaps: bool,
    /// Whether the last claim brought nothing: the next one will not bring many.
    pub(crate) expects_few: bool,
    /// The last rescan, if it found nothing.
    unchanged: Option<Unchanged>,
}

impl Levels {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            used: now,
            queues: HashMap::new(),
            paused: HashSet::new(),
            lag: Lag::new(now),
            many: ManyQueues::default(),
            clock: None,
            begun: false,
            try_gaps: false,
            expects_few: false,
            unchanged: None,
        }
    }

    pub(crate) fn touch(&mut self, now: Instant) {
        self.used = now;
    }

    pub(crate) fn are_used(&self, now: Instant) -> bool {
        now.duration_since(self.used) < FORGET_AFTER
    }

    /// Whether the first rescan is still to be made. Says so once.
    pub(crate) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// For claims.
    pub(crate) fn plan(&self, claim: &Claim, at: Instant) -> Plan {
        self.plan_with(claim, MOST_LEVELS, self.try_gaps, Some(at))
    }

    /// For looks at what is due: from all floors.
    pub(crate) fn plan_from_floors(&self, claim: &Claim) -> Plan {
        self.plan_with(claim, MOST_LEVELS, self.try_gaps, None)
    }

    /// For rescans: all levels, and the gaps between them.
    pub(crate) fn plan_of_all(&mut self, claim: &Claim, at: Instant) -> Plan {
        for levels in self.queues.values_mut() {
            levels.retain(|_, level| at.duration_since(level.used) < FORGET_AFTER);
        }
        self.queues.retain(|_, levels| !levels.is_empty());
        self.plan_with(claim, usize::MAX, true, None)
    }

    fn plan_with(&self, claim: &Claim, most: usize, gaps: bool, goes_on: Option<Instant>) -> Plan {
        let mut plan = Plan { lag: self.lag.get(), ..Plan::default() };
        for (queue, wanted) in claim.wanted.iter().enumerate() {
            let begin = plan.scans.len();
            let known = self.queues.get(wanted.queue.as_ref());
            let oldest = known.and_then(|levels| self.oldest_of(levels, most));
            let mut above = ABOVE;
            let mut scan = |hi, lo, level: Option<&Level>| {
                let (floor, thorough) = (level.map(|level| level.floor), level.is_some_and(|level| level.thorough));
                let go_on = goes_on.and_then(|at| level?.goes_on(at));
                plan.scans.push(Scan { queue, hi, lo, floor, go_on, thorough });
            };
            for (priority, level) in known.into_iter().flatten().rev() {
                if oldest.is_some_and(|oldest| level.used < oldest) {
                    continue;
                }
                let priority = i32::from(*priority);
                if gaps && above - priority > 1 {
                    scan(above, priority, None);
                }
                if !gaps && above > 0 && priority < 0 {
                    scan(0, 0, None);
                }
                scan(priority, priority, Some(level));
                above = priority;
            }
            if gaps && above - BELOW > 1 {
                scan(above, BELOW, None);
            }
            // Most jobs have no priority: this level is looked at even while it cannot be told which there are.
            if !gaps && above > 0 {
                scan(0, 0, None);
            }
            plan.of_queue.push(begin..plan.scans.len());
        }
        plan
    }

    /// Since when a level must have been used to be among so many.
    fn oldest_of(&self, levels: &BTreeMap<i16, Level>, most: usize) -> Option<Instant> {
        if levels.len() <= most {
            return None;
        }
        let mut used: Vec<Instant> = levels.values().map(|level| level.used).collect();
        used.sort_unstable_by(|a, b| b.cmp(a));
        used.get(most - 1).copied()
    }

    /// Learns from a claim that looked there and brought these jobs, at least one.
    pub(crate) fn claimed(&mut self, claim: &Claim, plan: &Plan, jobs: &[Seen<'_>], clock: DateTime<Utc>, at: Instant) {
        let Some(behind) = self.behind(clock) else { return };
        for (wanted, scans) in claim.wanted.iter().zip(&plan.of_queue) {
            let ours: Vec<&Seen<'_>> = jobs.iter().filter(|job| job.queue == wanted.queue.as_ref()).collect();
            let Some(lowest) = ours.iter().map(|job| job.priority).min() else {
                self.emptied(&wanted.queue, &plan.scans[scans.clone()], behind);
                continue;
            };
            let levels = self.queues.entry(wanted.queue.to_string()).or_default();
            for job in &ours {
                let new = Level::new(job.run_at, at);
                levels.entry(job.priority).or_insert(new).used = at;
            }
            // The claim went from level to level, and on only when one was empty up to its own moment. If it stopped
            // because it had enough, its last level is empty only up to the last job it took there; so, too, where it may
            // have met a job that must not be claimed ahead.
            let stopped_early = ours.len() >= wanted.slots;
            for scan in &plan.scans[scans.clone()] {
                let lowest_here = i32::from(lowest);
                if scan.hi < lowest_here && stopped_early {
                    break;
                }
                let (lo, hi) = if scan.hi == scan.lo { (scan.lo, scan.hi) } else { (scan.lo + 1, scan.hi - 1) };
                let passed = levels.range_mut(clamp(lo)..=clamp(hi));
                for (priority, level) in passed {
                    // It may have gone down since the claim began.
                    if i32::from(*priority) < lo
                        || i32::from(*priority) > hi
                        || scan.floor.is_some_and(|floor| level.floor < floor)
                    {
                        continue;
                    }
                    let last = ours.iter().filter(|job| job.priority == *priority).map(|job| job.run_at).max();
                    match priority.cmp(&lowest) {
                        std::cmp::Ordering::Equal if stopped_early => {
                            level.leave_off(scan, last.unwrap_or(behind), behind, at)
                        }
                        std::cmp::Ordering::Less if stopped_early => {}
                        // A scan without a floor has not looked at what is older.
                        _ if scan.floor.is_none() && last.is_none() => {}
                        _ => level.empty(scan, behind),
                    }
                }
            }
        }
    }

    /// Learns from a look that saw that nothing is due.
    pub(crate) fn nothing_due(&mut self, claim: &Claim, plan: &Plan, clock: DateTime<Utc>, paused: Vec<String>) {
        self.paused = paused.into_iter().collect();
        let Some(behind) = self.behind(clock) else { return };
        for (wanted, scans) in claim.wanted.iter().zip(&plan.of_queue) {
            self.emptied(&wanted.queue, &plan.scans[scans.clone()], behind);
        }
    }

    /// There is nothing in this queue up to now, at least not for this worker.
    fn emptied(&mut self, queue: &str, scans: &[Scan], behind: DateTime<Utc>) {
        if self.paused.contains(queue) || self.paused.contains(ALL_QUEUES) {
            return;
        }
        for scan in scans {
            let Some(priority) = scan.level() else { continue };
            let Some(floor) = scan.floor else { continue };
            let level = self.queues.get_mut(queue).and_then(|levels| levels.get_mut(&priority));
            if let Some(level) = level.filter(|level| level.floor >= floor && level.floor < behind) {
                level.empty(scan, behind);
            }
        }
    }

    /// Learns which levels there are in the gaps of this plan, and how long it took to see.
    pub(crate) fn discovered(
        &mut self,
        found: &[(String, i16)],
        paused: Vec<String>,
        clock: DateTime<Utc>,
        took: Duration,
        at: Instant,
    ) {
        self.paused = paused.into_iter().collect();
        self.try_gaps = took <= CHEAP;
        let Some(floor) = self.behind(clock) else { return };
        for (queue, priority) in found {
            let new = Level::new(floor, at);
            self.queues.entry(queue.clone()).or_default().entry(*priority).or_insert(new);
        }
    }

    /// Learns from a rescan below the floors of this plan. What was there before, too, was passed over by claims that looked
    /// right at it; the next one tries every row. The next claim begins at the floor: whatever stands above it is seen.
    pub(crate) fn rescanned(&mut self, claim: &Claim, plan: &Plan, found: &[Straggler], at: Instant) {
        for scan in &plan.scans {
            let (Some(priority), Some(floor)) = (scan.level(), scan.floor) else { continue };
            let queue = claim.wanted[scan.queue].queue.as_ref();
            let level = self.queues.get_mut(queue).and_then(|levels| levels.get_mut(&priority));
            let Some(level) = level else { continue };
            level.left_off = None;
            match found.iter().find(|found| found.priority == priority && found.queue == queue) {
                Some(found) => {
                    let this = Some((found.run_at, found.id));
                    level.thorough = level.straggler == this;
                    level.floor = level.floor.min(found.run_at);
                    (level.straggler, level.used) = (this, at);
                }
                None => {
                    level.straggler.take_if(|(run_at, _)| *run_at < floor);
                }
            }
        }
    }

    /// A rescan of all levels, after the server had counted so many changes.
    pub(crate) fn note_unchanged(&mut self, found_nothing: bool, changes: Option<i64>, began: Instant, took: Duration) {
        self.unchanged = Unchanged::new(changes, &self.paused, began, took).filter(|_| found_nothing);
    }

    /// Whether the next rescan would find nothing, as the last one did.
    pub(crate) fn are_unchanged(&self, changes: Option<i64>, now: Instant) -> bool {
        self.unchanged.as_ref().is_some_and(|last| last.still(changes, &self.paused, now))
    }

    /// Up to where floors may follow this time of the database. `None`: its clock was set back, and all that was known is
    /// forgotten.
    fn behind(&mut self, clock: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if self.clock.is_some_and(|newest| clock < newest - STEP_BACK) {
            (self.clock, self.begun, self.try_gaps) = (Some(clock), false, false);
            self.queues.clear();
            self.unchanged = None;
            return None;
        }
        self.clock = self.clock.max(Some(clock));
        Some(clock - self.lag.get())
    }
}

/// A priority out of a scan's bounds, which may lie just beyond all priorities.
fn clamp(priority: i32) -> i16 {
    i16::try_from(priority).unwrap_or(if priority > 0 { i16::MAX } else { i16::MIN })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "levels/tests.rs"]
mod tests;
