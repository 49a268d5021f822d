//! What a worker learns about its levels from each claim, poll and rescan.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use diesel_jobs_core::storage::Claim;

use super::{ALL_QUEUES, CHEAP_DISCOVERY, JobPosition, Level, Levels, Plan, Scan, Straggler};

impl Levels {
    /// Learns from a claim that followed this plan and returned these jobs. There is at least one.
    pub(crate) fn claimed(
        &mut self,
        claim: &Claim,
        plan: &Plan,
        jobs: &[JobPosition<'_>],
        clock: DateTime<Utc>,
        at: Instant,
    ) {
        let Some(highest_floor) = self.highest_floor(clock).filter(|_| self.are_for(&claim.kinds)) else { return };
        // Then it has perhaps not read the queues after the last one that got a job, and not all of that one.
        let reached_most = claim.most.is_some_and(|most| jobs.len() >= most);
        let last = claim.wanted.iter().rposition(|wanted| jobs.iter().any(|job| job.queue == wanted.queue.as_ref()));
        for (place, (wanted, scans)) in claim.wanted.iter().zip(&plan.of_queue).enumerate() {
            let ours: Vec<&JobPosition<'_>> = jobs.iter().filter(|job| job.queue == wanted.queue.as_ref()).collect();
            let Some(lowest) = ours.iter().map(|job| job.priority).min() else {
                if !reached_most || last.is_some_and(|last| place < last) {
                    self.emptied(&wanted.queue, &plan.scans[scans.clone()], highest_floor);
                }
                continue;
            };
            let levels = self.queues.entry(wanted.queue.to_string()).or_default();
            for job in &ours {
                let new = Level::new(job.run_at, at);
                levels.entry(job.priority).or_insert(new).note_job(at);
            }
            // The claim continued with the next level only when a level was empty up to the claim's own time. If it
            // stopped because it had enough jobs, its last level is empty only up to the last job that it took there.
            // The same holds if it may have met a job that must not be prefetched.
            let stopped_early = reached_most || ours.len() >= wanted.slots;
            for scan in &plan.scans[scans.clone()] {
                let lowest_here = i32::from(lowest);
                if scan.hi < lowest_here && stopped_early {
                    break;
                }
                let (lo, hi) = if scan.hi == scan.lo { (scan.lo, scan.hi) } else { (scan.lo + 1, scan.hi - 1) };
                let passed = levels.range_mut(clamp(lo)..=clamp(hi));
                for (priority, level) in passed {
                    // A rescan may have lowered the floor since the claim began.
                    if i32::from(*priority) < lo
                        || i32::from(*priority) > hi
                        || scan.floor.is_some_and(|floor| level.floor < floor)
                    {
                        continue;
                    }
                    let last = ours.iter().filter(|job| job.priority == *priority).map(|job| job.run_at).max();
                    match priority.cmp(&lowest) {
                        std::cmp::Ordering::Equal if stopped_early => {
                            level.note_full_claim(scan, last.unwrap_or(highest_floor), highest_floor, at)
                        }
                        std::cmp::Ordering::Less if stopped_early => {}
                        // A scan without a floor has not read older entries.
                        _ if scan.floor.is_none() && last.is_none() => {}
                        _ => level.empty(scan, highest_floor),
                    }
                }
            }
        }
    }

    /// Learns from a poll that found nothing due.
    pub(crate) fn nothing_due(&mut self, claim: &Claim, plan: &Plan, clock: DateTime<Utc>, paused: Vec<String>) {
        self.paused = paused.into_iter().collect();
        let Some(highest_floor) = self.highest_floor(clock).filter(|_| self.are_for(&claim.kinds)) else { return };
        for (wanted, scans) in claim.wanted.iter().zip(&plan.of_queue) {
            self.emptied(&wanted.queue, &plan.scans[scans.clone()], highest_floor);
        }
    }

    /// Records that this queue has no due job for this worker.
    fn emptied(&mut self, queue: &str, scans: &[Scan], highest_floor: DateTime<Utc>) {
        if self.paused.contains(queue) || self.paused.contains(ALL_QUEUES) {
            return;
        }
        for scan in scans {
            let Some(priority) = scan.level() else { continue };
            let Some(floor) = scan.floor else { continue };
            let level = self.queues.get_mut(queue).and_then(|levels| levels.get_mut(&priority));
            if let Some(level) = level.filter(|level| level.floor >= floor && level.floor < highest_floor) {
                level.empty(scan, highest_floor);
            }
        }
    }

    /// Learns which levels are in the gaps of this plan, and how long the search took.
    pub(crate) fn discovered(
        &mut self,
        found: &[(String, i16)],
        paused: Vec<String>,
        clock: DateTime<Utc>,
        took: Duration,
        at: Instant,
    ) {
        self.paused = paused.into_iter().collect();
        self.read_gaps = took <= CHEAP_DISCOVERY;
        let Some(floor) = self.highest_floor(clock) else { return };
        for (queue, priority) in found {
            let new = Level::new(floor, at);
            self.queues.entry(queue.clone()).or_default().entry(*priority).or_insert(new);
        }
    }

    /// Learns from a rescan below the floors of this plan. If it found the same job as the rescan before, claims have
    /// passed over that job although they read its place. The next claim then tries every row. It also begins at the
    /// floor, so that it sees every job above the floor.
    pub(crate) fn rescanned(&mut self, claim: &Claim, plan: &Plan, found: &[Straggler], at: Instant) {
        for scan in &plan.scans {
            let (Some(priority), Some(floor)) = (scan.level(), scan.floor) else { continue };
            let queue = claim.wanted[scan.queue].queue.as_ref();
            let level = self.queues.get_mut(queue).and_then(|levels| levels.get_mut(&priority));
            let Some(level) = level else { continue };
            level.stopped_at = None;
            match found.iter().find(|found| found.priority == priority && found.queue == queue) {
                Some(found) => {
                    let this = Some((found.run_at, found.id));
                    level.try_all_rows = level.straggler == this;
                    level.floor = level.floor.min(found.run_at);
                    level.straggler = this;
                    level.note_job(at);
                }
                None => {
                    level.straggler.take_if(|(run_at, _)| *run_at < floor);
                }
            }
        }
    }
}

/// Limits a bound of a scan to the valid priorities. A bound may lie one beyond them.
fn clamp(priority: i32) -> i16 {
    i16::try_from(priority).unwrap_or(if priority > 0 { i16::MAX } else { i16::MIN })
}
