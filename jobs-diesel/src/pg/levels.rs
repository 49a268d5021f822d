//! Where the next claim begins to read. A *level* is one priority of one queue. Its *scan floor* is the `run_at` below
//! which claims no longer read.
//!
//! Without floors, a claim reads every index entry that it cannot use. Some entries belong to jobs that were claimed
//! before and that no vacuum could remove yet. One open transaction with an old snapshot keeps the entries of all jobs
//! that were claimed since it began. Other entries belong to jobs of kinds that this program does not know, and to jobs
//! of transactions that have not committed.
//!
//! A floor rises with the database's clock and stays behind it by the [lag](super::lag). Some jobs appear below a
//! floor. If a transaction was open for longer than the lag, its jobs are below the floor when it commits. Jobs that
//! are rescued or released keep their old `run_at`. All these jobs are *stragglers*. A
//! [rescan](super::queries::rescan) finds them about every second, in parallel with the claims, and lowers the floor to
//! them. Without rescans, stragglers would never be found. Without the lag, no job would be lost, but jobs would start
//! late.
//!
//! A *full* claim, which found as many jobs as it wanted, stops in the middle of a level. For 50 ms the next claims
//! resume at its last job instead of the floor. The floor is behind the clock by the lag. So the entries of all jobs
//! that were claimed within the lag lie between the floor and that last job. The next claims do not read them again.
//!
//! Example: the clock is at 12:00:10, and the floor of a level at 12:00:08. A job that was enqueued at 12:00:03 is
//! committed now. The next claim reads from 12:00:08 on and does not find it. The rescan reads up to 12:00:08, finds
//! the job, and sets the floor to 12:00:03. The claim after that takes the job, and sets the floor to 12:00:08 again.
//!
//! Priorities that this worker does not know lie in the *gaps* between its levels. A claim reads the gaps, too, while
//! that is cheap. The [discovery](super::queries::discover) of each rescan measures whether it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::Claim;

mod learn;
mod level;
mod plan;

use super::lag::Lag;
use super::many_queues::ManyQueues;
use super::slow_queries::SlowQueries;
use super::unchanged::Unchanged;
use level::{Level, Rank};
pub(crate) use plan::{OnlyLevel, Plan, Scan};

/// A level in which nothing was found for this long is forgotten. If it is used again, it is found again.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// How many levels of one queue a claim reads. A rescan finds jobs in the other levels, and claims then read these
/// levels instead of empty ones.
const MOST_LEVELS: usize = 64;
/// A claim reads the gaps while reading all of them takes no longer than this.
const CHEAP_DISCOVERY: Duration = Duration::from_millis(8);
/// After slow polls that looked for overdue jobs, none looks for this many times as long as the last one took.
const LOOK_PAUSE: u32 = 50;
/// The database's host may set its clock back. After a step of more than this, the levels are forgotten.
const STEP_BACK: TimeDelta = TimeDelta::seconds(1);

/// Stands for all queues in the list of paused queues, while the database is frozen. No queue has this name.
pub(crate) const ALL_QUEUES: &str = "";

/// One more than the highest priority.
const ABOVE: i32 = i16::MAX as i32 + 1;
/// One less than the lowest priority.
const BELOW: i32 = i16::MIN as i32 - 1;

/// The queue, the priority and the `run_at` of one claimed job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobPosition<'a> {
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

/// What one worker knows about its levels.
#[derive(Debug)]
pub(crate) struct Levels {
    /// When the worker last used this.
    used: Instant,
    /// The kinds that the newest claim asked for.
    kinds: Arc<[String]>,
    queues: HashMap<String, BTreeMap<i16, Level>>,
    paused: HashSet<String>,
    pub(crate) lag: Lag,
    pub(crate) many: ManyQueues,
    /// The last poll has looked for overdue jobs.
    has_looked: bool,
    /// The polls that look for them.
    looks: SlowQueries,
    /// The newest time of the database that this worker has seen.
    clock: Option<DateTime<Utc>>,
    /// Whether a first rescan was made or tried.
    begun: bool,
    /// Whether claims read the gaps, too.
    read_gaps: bool,
    /// Whether the last claim found nothing. Then the next claim is expected to find few jobs.
    pub(crate) expects_few: bool,
    /// The last rescan, if it found nothing.
    unchanged: Option<Unchanged>,
}

impl Levels {
    pub(crate) fn new(longest_lag: Duration, now: Instant) -> Self {
        Self {
            used: now,
            kinds: Arc::default(),
            queues: HashMap::new(),
            paused: HashSet::new(),
            lag: Lag::new(longest_lag, now),
            many: ManyQueues::default(),
            has_looked: false,
            looks: SlowQueries::with_factor(LOOK_PAUSE),
            clock: None,
            begun: false,
            read_gaps: false,
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

    /// Whether a first rescan must be made before a claim for these kinds. Returns `true` once, once after each time
    /// that the database's clock was set back, and once after a kind was added. The floors are above the jobs of kinds
    /// that earlier claims did not ask for, so the levels are then discarded.
    pub(crate) fn begin(&mut self, kinds: &Arc<[String]>) -> bool {
        if !self.are_for(kinds) {
            if kinds.iter().any(|kind| !self.kinds.contains(kind)) {
                self.forget();
            }
            self.kinds = kinds.clone();
        }
        !std::mem::replace(&mut self.begun, true)
    }

    /// Whether the levels are those of claims for these kinds. If not, the claim began before a kind was added, and has
    /// passed over the jobs of that kind. So its result changes no level.
    pub(crate) fn are_for(&self, kinds: &Arc<[String]>) -> bool {
        Arc::ptr_eq(&self.kinds, kinds) || self.kinds == *kinds
    }

    /// Whether the next poll looks for overdue jobs, too. Every second one does, so that the others show the
    /// [lag](Self::lag) how long a poll takes.
    pub(crate) fn looks_for_overdue(&mut self, now: Instant) -> bool {
        self.has_looked = !self.has_looked && self.looks.may_query(now);
        self.has_looked
    }

    /// Records how long a poll took that has looked for them. `None`: it has failed.
    pub(crate) fn has_looked_for_overdue(&mut self, took: Option<Duration>, now: Instant) {
        match took {
            Some(took) => self.looks.note(took, now),
            None => self.looks.note_failure(now),
        }
    }

    fn forget(&mut self) {
        (self.begun, self.read_gaps) = (false, false);
        self.queues.clear();
        self.unchanged = None;
    }

    /// The plan of a claim.
    pub(crate) fn plan(&self, claim: &Claim, at: Instant) -> Plan {
        self.plan_with(claim, MOST_LEVELS, self.read_gaps, Some(at))
    }

    /// The plan that reads every level from its floor. It is used for `next_due`, and for the second try of a claim.
    pub(crate) fn plan_from_floors(&self, claim: &Claim) -> Plan {
        self.plan_with(claim, MOST_LEVELS, self.read_gaps, None)
    }

    /// Forgets the levels that were not used for [`FORGET_AFTER`]. Then returns the plan of a rescan: all other levels,
    /// and the gaps between them.
    pub(crate) fn plan_of_all(&mut self, claim: &Claim, at: Instant) -> Plan {
        for levels in self.queues.values_mut() {
            levels.retain(|_, level| at.duration_since(level.used) < FORGET_AFTER);
        }
        self.queues.retain(|_, levels| !levels.is_empty());
        let mut plan = self.plan_with(claim, usize::MAX, true, None);
        for (queue, range) in claim.wanted.iter().zip(&plan.of_queue) {
            let Some(levels) = self.queues.get(queue.queue.as_ref()) else { continue };
            let Some(lowest) = lowest_rank(levels, MOST_LEVELS) else { continue };
            for scan in &mut plan.scans[range.clone()] {
                // Claims do not read these levels at all, so the rescan reads them up to now.
                let rank = scan.level().and_then(|priority| Some(levels.get(&priority)?.rank(priority)));
                if rank.is_some_and(|rank| rank < lowest) {
                    scan.floor = scan.floor.max(self.clock);
                }
            }
        }
        plan
    }

    fn plan_with(&self, claim: &Claim, most: usize, gaps: bool, resume_at: Option<Instant>) -> Plan {
        let mut plan = Plan { lag: self.lag.get(), ..Plan::default() };
        for (queue, wanted) in claim.wanted.iter().enumerate() {
            let begin = plan.scans.len();
            let known = self.queues.get(wanted.queue.as_ref());
            let lowest = known.and_then(|levels| lowest_rank(levels, most));
            let mut above = ABOVE;
            let mut scan = |hi, lo, level: Option<&Level>| {
                let (floor, try_all_rows) =
                    (level.map(|level| level.floor), level.is_some_and(|level| level.try_all_rows));
                let resume_at = resume_at.and_then(|at| level?.resume_at(at));
                plan.scans.push(Scan { queue, hi, lo, floor, resume_at, try_all_rows });
            };
            for (priority, level) in known.into_iter().flatten().rev() {
                if lowest.is_some_and(|lowest| level.rank(*priority) < lowest) {
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
            // Most jobs have priority 0. So this level is read even while it is unknown which levels there are.
            if !gaps && above > 0 {
                scan(0, 0, None);
            }
            plan.of_queue.push(begin..plan.scans.len());
        }
        plan
    }

    /// Records a rescan of all levels, made after the server had counted this many changes.
    pub(crate) fn note_unchanged(&mut self, found_nothing: bool, changes: Option<i64>, began: Instant, took: Duration) {
        self.unchanged = Unchanged::new(changes, &self.paused, began, took).filter(|_| found_nothing);
    }

    /// Whether the next rescan would find nothing, as the last one did.
    pub(crate) fn are_unchanged(&self, changes: Option<i64>, now: Instant) -> bool {
        self.unchanged.as_ref().is_some_and(|last| last.still(changes, &self.paused, now))
    }

    /// How far floors may rise at this time of the database. `None` if its clock was set back: then the levels are
    /// forgotten.
    fn highest_floor(&mut self, clock: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if self.clock.is_some_and(|newest| clock < newest - STEP_BACK) {
            self.clock = Some(clock);
            self.forget();
            return None;
        }
        self.clock = self.clock.max(Some(clock));
        Some(clock - self.lag.get())
    }
}

/// Returns the rank of the last of the `most` levels that a plan reads. It leaves out all lower ones. `None` if there
/// are no more than `most` levels.
fn lowest_rank(levels: &BTreeMap<i16, Level>, most: usize) -> Option<Rank> {
    if levels.len() <= most {
        return None;
    }
    let mut ranks: Vec<Rank> = levels.iter().map(|(priority, level)| level.rank(*priority)).collect();
    let (_, lowest, _) = ranks.select_nth_unstable_by(most - 1, |a, b| b.cmp(a));
    Some(*lowest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "levels/tests.rs"]
mod tests;
