//! Where the next claim starts to look. A lane is a queue and a priority; its *floor* is the `run_at` below which this
//! process knows nothing to be left.
//!
//! Without floors a claim walks over the index entries of all jobs claimed before it that no vacuum could remove yet:
//! one forgotten transaction with an old snapshot, and every claim of every worker walks over all that was done since.
//!
//! A floor may never pass a job that is still to appear. New jobs carry the database's clock at their insert, but appear
//! at their commit. So floors stay below the *horizon*: every transaction that wrote anything before it has ended, which
//! a claim sees by comparing the oldest running transaction (`xmin`) with the numbers of its predecessors.
//!
//! What comes back below a floor all the same (the jobs of a released, rescued or rolled-back claim return to their old
//! place) is found by the sweep: a claim that starts at the bottom, every second, or less often where it takes long.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use diesel::deserialize::FromSqlRow;
use jobs_core::storage::{Claim, Wanted};

/// Between two sweeps, unless a sweep takes long.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A sweep that takes longer than this is a claim that people notice,
const BRIEF: Duration = Duration::from_millis(20);
/// unless claims take that long anyway: on a machine that is short of time all do, and a sweep seldom so many times as long.
const LIKE_OTHERS: u32 = 5;
/// It is to take one in two hundred parts of the time, so that the 99th percentile of the claims is none of it,
const SMALL_SHARE: u32 = 200;
/// unless that would put it off for longer than this: then one in twenty.
const PUT_OFF: Duration = Duration::from_secs(10);
const LARGE_SHARE: u32 = 20;
/// Between reading the clock for `run_at` and becoming a transaction with a number, an insert may be held up this long.
const SLACK: Duration = Duration::from_secs(1);
/// Claims closer together than this share one mark of the horizon.
const MARK_EVERY: Duration = Duration::from_millis(100);
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
    /// `None`: from the bottom.
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

#[derive(Debug)]
struct Lane {
    /// Everything below was claimed by somebody.
    emptied_to: Option<DateTime<Utc>>,
    used: Instant,
}

#[derive(Debug)]
pub(crate) struct Lanes {
    queues: HashMap<String, BTreeMap<i16, Lane>>,
    horizon: Option<DateTime<Utc>>,
    /// Claims whose transaction number tells when the horizon may move to their time.
    marks: VecDeque<(i64, DateTime<Utc>)>,
    next_sweep: Instant,
    /// What a claim takes that brings jobs and is no sweep: a running mean.
    usual: Duration,
}

/// After a sweep that took this long, where claims usually take that long.
fn pause_after(took: Duration, usual: Duration) -> Duration {
    let large = took * LARGE_SHARE;
    if took <= BRIEF.max(usual * LIKE_OTHERS) { large } else { (took * SMALL_SHARE).min(PUT_OFF).max(large) }
}

impl Lanes {
    pub(crate) fn new(now: Instant) -> Self {
        Self { queues: HashMap::new(), horizon: None, marks: VecDeque::new(), next_sweep: now, usual: Duration::ZERO }
    }

    /// Makes the next claim a sweep.
    pub(crate) fn sweep_next(&mut self, now: Instant) {
        self.next_sweep = now;
    }

    /// Whether the next claim is a sweep.
    pub(crate) fn is_sweep_due(&self, now: Instant) -> bool {
        now >= self.next_sweep
    }

    /// After a claim that brought jobs, was no sweep and took this long. One that is refused at the gate is short everywhere.
    pub(crate) fn claimed(&mut self, took: Duration) {
        self.usual = (self.usual * 7 + took) / 8;
    }

    /// After a claim that was to be a sweep, took this long and brought nothing. It may have been refused at the gate.
    pub(crate) fn swept_in_vain(&mut self, now: Instant, took: Duration) {
        self.next_sweep = now + pause_after(took, self.usual);
    }

    /// After a sweep that took this long.
    pub(crate) fn swept(&mut self, now: Instant, took: Duration) {
        self.next_sweep = now + SWEEP_EVERY.max(pause_after(took, self.usual));
        for lanes in self.queues.values_mut() {
            lanes.retain(|_, lane| now.duration_since(lane.used) < FORGET_AFTER);
        }
    }

    /// Where to look, best first within each queue: the known lanes from their floors, and between them whatever other
    /// priorities there are. A sweep looks everywhere from the bottom.
    pub(crate) fn plan(&self, claim: &Claim, sweep: bool) -> Vec<Scan> {
        let mut scans = Vec::new();
        for wanted in &claim.wanted {
            let queue = &wanted.queue;
            let mut scan = |hi, lo, floor| scans.push(Scan { queue: queue.clone(), hi, lo, floor });
            let mut above = ABOVE;
            let known = self.queues.get(queue).filter(|_| !sweep);
            for (priority, lane) in known.into_iter().flatten().rev() {
                let priority = i32::from(*priority);
                if above - priority > 1 {
                    scan(above, priority, None);
                }
                scan(priority, priority, lane.emptied_to.zip(self.horizon).map(|(to, horizon)| to.min(horizon)));
                above = priority;
            }
            if above - BELOW > 1 {
                scan(above, BELOW, None);
            }
        }
        scans
    }

    /// Learns from a claim that brought these jobs, at least one.
    pub(crate) fn learn(&mut self, claim: &Claim, jobs: &[Seen<'_>], moment: Moment, at: Instant) {
        self.advance_horizon(moment);
        for Wanted { queue, slots, .. } in &claim.wanted {
            let ours: Vec<&Seen<'_>> = jobs.iter().filter(|job| job.queue == queue).collect();
            // A queue that gave nothing may be paused: nothing is known about it.
            let Some(lowest) = ours.iter().map(|job| job.priority).min() else { continue };
            let lanes = self.queues.entry(queue.clone()).or_default();
            for job in &ours {
                if lanes.len() < MOST_LANES || lanes.contains_key(&job.priority) {
                    lanes.entry(job.priority).or_insert(Lane { emptied_to: None, used: at }).used = at;
                }
            }
            // The claim went from lane to lane, and on only when one was empty up to its own moment. If it stopped
            // because it had enough, its last lane is empty only up to the last job it took there; so, too, where it may
            // have met a job that must not be claimed ahead.
            let stopped_early = ours.len() >= *slots;
            for (priority, lane) in lanes.iter_mut() {
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

    fn scans(lanes: &Lanes, sweep: bool) -> Vec<(i32, i32, Option<DateTime<Utc>>)> {
        lanes.plan(&claim(1), sweep).into_iter().map(|scan| (scan.hi, scan.lo, scan.floor)).collect()
    }

    /// Learned from a claim at second `now` whose predecessors have all ended.
    fn learned(slots: usize, jobs: &[Seen<'_>], now: i64) -> Lanes {
        let start = Instant::now();
        let mut lanes = Lanes::new(start);
        lanes.learn(&claim(slots), jobs, Moment { xid: 10, xmin: 10, now: at(now) }, start);
        lanes.learn(&claim(slots), jobs, Moment { xid: 11, xmin: 11, now: at(now) }, start);
        lanes
    }

    #[test]
    fn a_new_process_looks_everywhere() {
        assert_eq!(scans(&Lanes::new(Instant::now()), false), [(ABOVE, BELOW, None)]);
    }

    #[test]
    fn known_lanes_start_at_their_floor_and_the_gaps_between_them_are_looked_at_too() {
        let lanes = learned(2, &[seen(5, 1), seen(0, 2)], 100);
        let horizon = Some(at(99));
        assert_eq!(
            scans(&lanes, false),
            [(ABOVE, 5, None), (5, 5, horizon), (5, 0, None), (0, 0, Some(at(2))), (0, BELOW, None)]
        );
        assert_eq!(scans(&lanes, true), [(ABOVE, BELOW, None)], "a sweep forgets what it knows");
    }

    #[test]
    fn a_sweep_that_brought_nothing_is_soon_repeated() {
        let start = Instant::now();
        let mut lanes = Lanes::new(start);
        assert!(lanes.is_sweep_due(start));
        lanes.swept(start, Duration::from_millis(1));
        assert!(!lanes.is_sweep_due(start + Duration::from_millis(900)));
        lanes.swept_in_vain(start, Duration::from_millis(1));
        assert!(!lanes.is_sweep_due(start + Duration::from_millis(15)), "not at once: it may be a long one");
        assert!(lanes.is_sweep_due(start + Duration::from_millis(25)));
    }

    #[test]
    fn a_claim_that_did_not_get_enough_has_emptied_every_lane() {
        let lanes = learned(3, &[seen(5, 1), seen(0, 2)], 100);
        assert!(scans(&lanes, false).contains(&(0, 0, Some(at(99)))));
    }

    #[test]
    fn no_floor_passes_a_transaction_that_may_still_commit() {
        let start = Instant::now();
        let mut lanes = Lanes::new(start);
        // Transaction 7 has been running since before the first claim.
        for (xid, now) in [(10, 100), (11, 200), (12, 300)] {
            lanes.learn(&claim(9), &[seen(0, now)], Moment { xid, xmin: 7, now: at(now) }, start);
        }
        assert_eq!(scans(&lanes, false)[1], (0, 0, None));
        // It ends; 12 is the oldest that runs. What began after claim 11 may still come.
        lanes.learn(&claim(9), &[seen(0, 400)], Moment { xid: 13, xmin: 12, now: at(400) }, start);
        assert_eq!(scans(&lanes, false)[1], (0, 0, Some(at(199))));
    }

    #[test]
    fn what_came_back_below_a_floor_lowers_it_so_that_the_rest_follows() {
        let start = Instant::now();
        let mut lanes = learned(9, &[seen(0, 90)], 100);
        lanes.learn(&claim(2), &[seen(0, 3), seen(0, 4)], Moment { xid: 12, xmin: 12, now: at(101) }, start);
        assert_eq!(scans(&lanes, false)[1], (0, 0, Some(at(4))));
    }

    #[test]
    fn a_queue_that_gave_nothing_keeps_its_floors() {
        let start = Instant::now();
        let mut lanes = learned(2, &[seen(0, 1), seen(0, 2)], 100);
        let mut both = claim(1);
        both.wanted.push(Wanted::new("other", 1));
        let other = Seen { queue: "other", priority: 0, run_at: at(50) };
        lanes.learn(&both, &[other], Moment { xid: 12, xmin: 12, now: at(200) }, start);
        assert_eq!(scans(&lanes, false)[1], (0, 0, Some(at(2))));
    }

    #[test]
    fn a_slow_sweep_is_repeated_less_often() {
        let start = Instant::now();
        let mut lanes = Lanes::new(start);
        assert!(lanes.is_sweep_due(start));
        lanes.swept(start, Duration::from_millis(1));
        assert!(!lanes.is_sweep_due(start + Duration::from_millis(999)) && lanes.is_sweep_due(start + SWEEP_EVERY));
        for (took, pause) in [(20, 1), (40, 8), (500, 10), (3_000, 60)] {
            lanes.swept(start, Duration::from_millis(took));
            let due = start + Duration::from_secs(pause);
            assert!(!lanes.is_sweep_due(due - Duration::from_millis(1)) && lanes.is_sweep_due(due), "{took}");
        }
        // Where every claim takes long, a sweep that does says nothing about what it walked over.
        (0..50).for_each(|_| lanes.claimed(Duration::from_millis(30)));
        lanes.swept(start, Duration::from_millis(100));
        assert!(lanes.is_sweep_due(start + Duration::from_secs(2)));
    }
}
