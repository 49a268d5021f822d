//! Where the next claim starts to look. A lane is a queue and a priority; its *floor* is the `run_at` below which this
//! worker knows nothing to be left.
//!
//! Without floors a claim walks over the index entries of all jobs claimed before it that no vacuum could remove yet:
//! one forgotten transaction with an old snapshot, and every claim of every worker walks over all that was done since.
//!
//! A floor may never pass a job that is still to appear. New jobs carry the database's clock at their insert, but appear
//! at their commit. So floors stay below the *horizon*: every transaction that wrote anything before it has ended, which
//! a claim sees by comparing the oldest running transaction (`xmin`) with the numbers of its predecessors.
//!
//! What comes back below a floor all the same (the jobs of a released, rescued or rolled-back claim return to their old
//! place) is found by [`look_back`](super::queries::look_back), which walks there beside the claims and holds none of them up.
//! The floor goes down to what it found, and the next claim starts from there.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use diesel::deserialize::FromSqlRow;
use jobs_core::storage::{Claim, Wanted};

/// Between reading the clock for `run_at` and becoming a transaction with a number, an insert may be held up this long.
const SLACK: Duration = Duration::from_secs(1);
/// Claims closer together than this share one mark of the horizon.
const MARK_EVERY: Duration = Duration::from_millis(100);
/// Marks remembered while some transaction that writes stays open.
const MOST_MARKS: usize = 4_096;
/// A lane nobody used for this long is forgotten; should it be used again, it is found again.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Lanes remembered per queue. Beyond, the claim finds them by itself, only slower.
const MOST_LANES: usize = 64;

/// Just beyond all priorities.
const ABOVE: i32 = i16::MAX as i32 + 1;
const BELOW: i32 = i16::MIN as i32 - 1;

/// A part of one queue for the claim to look at: one priority (`hi` = `lo`), or all priorities strictly between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) queue: String,
    pub(crate) hi: i32,
    pub(crate) lo: i32,
    /// `None`: from the bottom, and every row is tried.
    pub(crate) floor: Option<DateTime<Utc>>,
}

/// One claimed job, as far as floors go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) queue: &'a str,
    pub(crate) priority: i16,
    pub(crate) run_at: DateTime<Utc>,
}

/// What a claim that brought jobs says about transactions.
#[derive(Clone, Copy, Debug, FromSqlRow)]
pub(crate) struct Moment {
    /// The claim's own transaction number.
    pub(crate) xid: i64,
    /// The oldest transaction still running.
    pub(crate) xmin: i64,
    /// When the claim's transaction began, by the database's clock.
    pub(crate) now: DateTime<Utc>,
}

/// The first job below a floor.
#[derive(Debug)]
pub(crate) struct PassedBy {
    pub(crate) queue: String,
    pub(crate) priority: i16,
    pub(crate) run_at: DateTime<Utc>,
    pub(crate) id: i64,
}

#[derive(Debug)]
struct Lane {
    /// Everything below was claimed by somebody.
    emptied_to: Option<DateTime<Utc>>,
    /// What a look back found, until one sees that it is gone.
    passed_by: Option<(DateTime<Utc>, i64)>,
    used: Instant,
}

#[derive(Debug)]
pub(crate) struct Lanes {
    used: Instant,
    queues: HashMap<String, BTreeMap<i16, Lane>>,
    horizon: Option<DateTime<Utc>>,
    /// Claims whose transaction number tells when the horizon may move to their time.
    marks: VecDeque<(i64, DateTime<Utc>)>,
}

impl Lanes {
    pub(crate) fn new(now: Instant) -> Self {
        Self { used: now, queues: HashMap::new(), horizon: None, marks: VecDeque::new() }
    }

    pub(crate) fn touch(&mut self, now: Instant) {
        self.used = now;
    }

    pub(crate) fn are_used(&self, now: Instant) -> bool {
        now.duration_since(self.used) < FORGET_AFTER
    }

    /// Where to look, best first within each queue: the known lanes from their floors, and between them whatever other
    /// priorities there are.
    pub(crate) fn plan(&self, claim: &Claim) -> Vec<Scan> {
        let mut scans = Vec::new();
        for wanted in &claim.wanted {
            let queue = &wanted.queue;
            let mut scan = |hi, lo, floor| scans.push(Scan { queue: queue.clone(), hi, lo, floor });
            let mut above = ABOVE;
            for (priority, lane) in self.queues.get(queue).into_iter().flatten().rev() {
                let priority = i32::from(*priority);
                if above - priority > 1 {
                    scan(above, priority, None);
                }
                scan(priority, priority, self.floor(lane));
                above = priority;
            }
            if above - BELOW > 1 {
                scan(above, BELOW, None);
            }
        }
        scans
    }

    fn floor(&self, lane: &Lane) -> Option<DateTime<Utc>> {
        lane.emptied_to.zip(self.horizon).map(|(to, horizon)| to.min(horizon))
    }

    /// The lanes of these queues that claims do not look at from the bottom.
    pub(crate) fn floors(&self, claim: &Claim) -> Vec<Scan> {
        let mut floors = self.plan(claim);
        floors.retain(|scan| scan.floor.is_some());
        floors
    }

    /// Learns from a look back below these floors. What was there before, too, was passed over by claims that looked right at
    /// it; the next one tries every row.
    pub(crate) fn looked_back(&mut self, floors: &[Scan], found: &[PassedBy], now: Instant) {
        for Scan { queue, hi, floor, .. } in floors {
            let Some(lanes) = self.queues.get_mut(queue) else { continue };
            lanes.retain(|_, lane| now.duration_since(lane.used) < FORGET_AFTER);
            let Some((priority, lane)) = lanes.iter_mut().find(|(priority, _)| i32::from(**priority) == *hi) else {
                continue;
            };
            if let Some(found) = found.iter().find(|found| found.queue == *queue && found.priority == *priority) {
                let this = Some((found.run_at, found.id));
                lane.emptied_to = lane.emptied_to.min((lane.passed_by != this).then_some(found.run_at));
                lane.passed_by = this;
            } else {
                lane.passed_by.take_if(|(run_at, _)| Some(*run_at) < *floor);
            }
        }
    }

    /// Learns from a claim that looked there and brought these jobs, at least one.
    pub(crate) fn learn(&mut self, claim: &Claim, scans: &[Scan], jobs: &[Seen<'_>], moment: Moment, at: Instant) {
        self.advance_horizon(moment);
        for Wanted { queue, slots, .. } in &claim.wanted {
            let ours: Vec<&Seen<'_>> = jobs.iter().filter(|job| job.queue == queue).collect();
            // A queue that gave nothing may be paused: nothing is known about it.
            let Some(lowest) = ours.iter().map(|job| job.priority).min() else { continue };
            let lanes = self.queues.entry(queue.clone()).or_default();
            for job in &ours {
                if lanes.len() < MOST_LANES || lanes.contains_key(&job.priority) {
                    let new = Lane { emptied_to: None, passed_by: None, used: at };
                    lanes.entry(job.priority).or_insert(new).used = at;
                }
            }
            // The claim went from lane to lane, and on only when one was empty up to its own moment. If it stopped
            // because it had enough, its last lane is empty only up to the last job it took there; so, too, where it may
            // have met a job that must not be claimed ahead.
            let stopped_early = ours.len() >= *slots;
            for (priority, lane) in lanes.iter_mut() {
                // Of what lies below the floor it started from the claim knows nothing; that may have gone down meanwhile.
                let only = i32::from(*priority);
                let scan = scans.iter().find(|scan| scan.queue == *queue && scan.hi == only && scan.lo == only);
                if scan.is_some_and(|scan| lane.emptied_to < scan.floor) {
                    continue;
                }
                let last = ours.iter().filter(|job| job.priority == *priority).map(|job| job.run_at).max();
                match priority.cmp(&lowest) {
                    std::cmp::Ordering::Greater => lane.emptied_to = Some(moment.now),
                    std::cmp::Ordering::Equal if stopped_early => lane.emptied_to = last,
                    std::cmp::Ordering::Less if stopped_early => {}
                    _ => lane.emptied_to = Some(moment.now),
                }
            }
        }
    }

    fn advance_horizon(&mut self, Moment { xid, xmin, now }: Moment) {
        while let Some((_, passed)) = self.marks.pop_front_if(|(mark, _)| *mark < xmin) {
            self.horizon = self.horizon.max(Some(passed - SLACK));
        }
        if self
            .marks
            .back()
            .is_none_or(|(_, last)| now - *last >= chrono::TimeDelta::from_std(MARK_EVERY).unwrap_or_default())
        {
            self.marks.push_back((xid, now));
        }
        if self.marks.len() > MOST_MARKS {
            // The horizon takes longer steps then.
            self.marks = std::mem::take(&mut self.marks).into_iter().step_by(2).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use jobs_core::WorkerId;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_000_000 + seconds, 0).expect("in range")
    }

    fn claim(slots: usize) -> Claim {
        Claim {
            worker: WorkerId::generate(),
            wanted: vec![Wanted::new("q", slots)],
            kinds: [].into(),
            insist: false,
            suspect_at: u16::MAX,
        }
    }

    fn seen(priority: i16, seconds: i64) -> Seen<'static> {
        Seen { queue: "q", priority, run_at: at(seconds) }
    }

    fn scans(lanes: &Lanes) -> Vec<(i32, i32, Option<DateTime<Utc>>)> {
        lanes.plan(&claim(1)).into_iter().map(|scan| (scan.hi, scan.lo, scan.floor)).collect()
    }

    /// Learns from a claim that began here and now.
    fn learn(lanes: &mut Lanes, claim: &Claim, jobs: &[Seen<'_>], moment: Moment) {
        let scans = lanes.plan(claim);
        lanes.learn(claim, &scans, jobs, moment, Instant::now());
    }

    /// Learned from a claim at second `now` whose predecessors have all ended.
    fn learned(slots: usize, jobs: &[Seen<'_>], now: i64) -> Lanes {
        let mut lanes = Lanes::new(Instant::now());
        learn(&mut lanes, &claim(slots), jobs, Moment { xid: 10, xmin: 10, now: at(now) });
        learn(&mut lanes, &claim(slots), jobs, Moment { xid: 11, xmin: 11, now: at(now) });
        lanes
    }

    fn look_back(lanes: &mut Lanes, found: &[PassedBy]) {
        let floors = lanes.floors(&claim(1));
        lanes.looked_back(&floors, found, Instant::now());
    }

    fn passed_by(id: i64, seconds: i64) -> Vec<PassedBy> {
        vec![PassedBy { queue: "q".to_owned(), priority: 0, run_at: at(seconds), id }]
    }

    #[test]
    fn a_new_worker_looks_everywhere() {
        assert_eq!(scans(&Lanes::new(Instant::now())), [(ABOVE, BELOW, None)]);
    }

    #[test]
    fn known_lanes_start_at_their_floor_and_the_gaps_between_them_are_looked_at_too() {
        let lanes = learned(2, &[seen(5, 1), seen(0, 2)], 100);
        let horizon = Some(at(99));
        assert_eq!(
            scans(&lanes),
            [(ABOVE, 5, None), (5, 5, horizon), (5, 0, None), (0, 0, Some(at(2))), (0, BELOW, None)]
        );
        let floors = lanes.floors(&claim(1)).into_iter().map(|scan| (scan.hi, scan.lo, scan.floor));
        assert_eq!(floors.collect::<Vec<_>>(), [(5, 5, horizon), (0, 0, Some(at(2)))], "what a look back looks below");
    }

    #[test]
    fn what_a_look_back_finds_is_where_the_next_claim_starts() {
        let mut lanes = learned(9, &[seen(0, 90)], 100);
        look_back(&mut lanes, &passed_by(7, 3));
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(3))));
        learn(&mut lanes, &claim(9), &[seen(0, 3)], Moment { xid: 12, xmin: 12, now: at(101) });
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(99))), "it is empty again");
    }

    #[test]
    fn a_claim_that_began_before_a_look_back_knows_nothing_of_what_that_found() {
        let mut lanes = learned(9, &[seen(0, 90)], 100);
        let before = lanes.plan(&claim(9));
        look_back(&mut lanes, &passed_by(7, 3));
        let moment = Moment { xid: 12, xmin: 12, now: at(101) };
        lanes.learn(&claim(9), &before, &[seen(0, 100)], moment, Instant::now());
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(3))));
    }

    #[test]
    fn what_is_found_again_is_claimed_with_every_row_tried() {
        let mut lanes = learned(9, &[seen(0, 90)], 100);
        look_back(&mut lanes, &passed_by(7, 3));
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(3))));
        // It is not below the floor now, and no claim takes it.
        look_back(&mut lanes, &[]);
        learn(&mut lanes, &claim(9), &[seen(0, 100)], Moment { xid: 12, xmin: 12, now: at(101) });
        look_back(&mut lanes, &passed_by(7, 3));
        assert_eq!(scans(&lanes)[1], (0, 0, None));
    }

    #[test]
    fn what_was_gone_and_came_back_is_not_found_again() {
        let mut lanes = learned(9, &[seen(0, 90)], 100);
        look_back(&mut lanes, &passed_by(7, 3));
        learn(&mut lanes, &claim(9), &[seen(0, 3)], Moment { xid: 12, xmin: 12, now: at(101) });
        look_back(&mut lanes, &[]);
        look_back(&mut lanes, &passed_by(7, 3));
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(3))));
    }

    #[test]
    fn a_long_transaction_makes_no_endless_list_of_marks() {
        let mut lanes = Lanes::new(Instant::now());
        for xid in 10..20_000 {
            lanes.advance_horizon(Moment { xid, xmin: 7, now: at(xid) });
        }
        assert!(lanes.marks.len() <= MOST_MARKS);
        lanes.advance_horizon(Moment { xid: 20_000, xmin: 20_000, now: at(20_000) });
        let last = lanes.horizon.unwrap();
        assert!(last > at(19_900) && last < at(20_000), "{last}");
    }

    #[test]
    fn a_claim_that_did_not_get_enough_has_emptied_every_lane() {
        let lanes = learned(3, &[seen(5, 1), seen(0, 2)], 100);
        assert!(scans(&lanes).contains(&(0, 0, Some(at(99)))));
    }

    #[test]
    fn no_floor_passes_a_transaction_that_may_still_commit() {
        let mut lanes = Lanes::new(Instant::now());
        // Transaction 7 has been running since before the first claim.
        for (xid, now) in [(10, 100), (11, 200), (12, 300)] {
            learn(&mut lanes, &claim(9), &[seen(0, now)], Moment { xid, xmin: 7, now: at(now) });
        }
        assert_eq!(scans(&lanes)[1], (0, 0, None));
        // It ends; 12 is the oldest that runs. What began after claim 11 may still come.
        learn(&mut lanes, &claim(9), &[seen(0, 400)], Moment { xid: 13, xmin: 12, now: at(400) });
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(199))));
    }

    #[test]
    fn what_came_back_below_a_floor_lowers_it_so_that_the_rest_follows() {
        let mut lanes = learned(9, &[seen(0, 90)], 100);
        learn(&mut lanes, &claim(2), &[seen(0, 3), seen(0, 4)], Moment { xid: 12, xmin: 12, now: at(101) });
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(4))));
    }

    #[test]
    fn a_queue_that_gave_nothing_keeps_its_floors() {
        let mut lanes = learned(2, &[seen(0, 1), seen(0, 2)], 100);
        let mut both = claim(1);
        both.wanted.push(Wanted::new("other", 1));
        let other = Seen { queue: "other", priority: 0, run_at: at(50) };
        learn(&mut lanes, &both, &[other], Moment { xid: 12, xmin: 12, now: at(200) });
        assert_eq!(scans(&lanes)[1], (0, 0, Some(at(2))));
    }
}
