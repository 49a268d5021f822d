//! The model's claims.

use std::time::Duration;

use chrono::TimeDelta;
use diesel_jobs_core::storage::Claim;
use diesel_jobs_core::{JobId, JobState, WorkerId};

use super::state::{Job, ModelState};

/// A quarantined job counts towards the limit for this long after its claim.
const COUNTS_FOR: TimeDelta = TimeDelta::minutes(2);

impl ModelState {
    /// Leases the best due jobs of each queue, and returns them.
    pub(super) fn claim(&mut self, claim: &Claim) -> Vec<JobId> {
        let mut claimed = Vec::new();
        if !self.workers.contains_key(&claim.worker) {
            return claimed;
        }
        for wanted in &claim.wanted {
            let mut at_risk = false;
            for (place, id) in self.due(claim, &wanted.queue, false).into_iter().take(wanted.total()).enumerate() {
                at_risk |= self.jobs[&id].is_at_risk();
                if at_risk && place >= wanted.slots {
                    break;
                }
                claimed.push(id);
            }
        }
        self.lease(&mut claimed, claim.worker);
        claimed
    }

    /// Leases these jobs, which have just got a permit. Returns whether they were available and the claim wants them.
    pub(super) fn claim_passed_on(&mut self, claim: &Claim, ids: &mut [JobId]) -> bool {
        for wanted in &claim.wanted {
            let of_queue = ids.iter().filter(|id| self.jobs[id].queue == &*wanted.queue);
            let at_risk = of_queue.clone().filter(|id| self.jobs[id].is_at_risk()).count();
            if of_queue.count() > wanted.total() || at_risk > wanted.slots {
                return false;
            }
        }
        let is_wanted = |id: &JobId| {
            let job = &self.jobs[id];
            claim.wanted.iter().any(|wanted| self.waiting(claim, &wanted.queue, false).any(|(other, _)| other == *id))
                && job.flow.limit().is_some()
        };
        let all = ids.iter().all(is_wanted) && (ids.is_empty() || self.workers.contains_key(&claim.worker));
        self.lease(ids, claim.worker);
        all
    }

    /// Leases the best due quarantined job for which there is a slot, and returns it. Returns `None` if the limit is
    /// reached: one such job per four workers, and at least one.
    pub(super) fn claim_quarantined(&mut self, claim: &Claim) -> Option<JobId> {
        let counts = |job: &Job| job.claimed_at.is_some_and(|at| self.now - at < COUNTS_FOR);
        let is_running = |job: &Job| job.state == JobState::Running && job.is_quarantined(claim) && counts(job);
        let most = (self.workers.len() / 4).max(1);
        if !self.workers.contains_key(&claim.worker) || self.jobs.values().filter(|job| is_running(job)).count() >= most
        {
            return None;
        }
        let with_a_slot = claim.wanted.iter().filter(|wanted| wanted.slots > 0);
        let due = with_a_slot.flat_map(|wanted| self.due(claim, &wanted.queue, true));
        let mut best: Vec<JobId> = due.min_by_key(|id| self.jobs[id].order(*id)).into_iter().collect();
        self.lease(&mut best, claim.worker);
        best.pop()
    }

    /// Returns the time until the next job is due that is not quarantined.
    pub(super) fn next_due(&self, claim: &Claim) -> Option<Duration> {
        let waiting = claim.wanted.iter().flat_map(|wanted| self.waiting(claim, &wanted.queue, false));
        let earliest = waiting.map(|(_, job)| job.run_at).min()?;
        Some((earliest - self.now).to_std().unwrap_or_default())
    }

    fn waiting<'l>(
        &'l self,
        claim: &'l Claim,
        queue: &'l str,
        quarantined: bool,
    ) -> impl Iterator<Item = (JobId, &'l Job)> {
        let fits = move |job: &Job| {
            job.waits()
                && job.queue == queue
                && !self.frozen
                && !self.paused.contains(queue)
                && claim.kinds.iter().any(|kind| kind == job.kind)
                && job.is_quarantined(claim) == quarantined
        };
        self.jobs.iter().map(|(id, job)| (*id, job)).filter(move |(_, job)| fits(job))
    }

    /// The due jobs, best first.
    fn due(&self, claim: &Claim, queue: &str, quarantined: bool) -> Vec<JobId> {
        let due = self.waiting(claim, queue, quarantined).filter(|(_, job)| job.run_at <= self.now);
        let mut due: Vec<_> = due.map(|(id, job)| job.order(id)).collect();
        due.sort();
        due.into_iter().map(|(.., id)| id).collect()
    }

    fn lease(&mut self, jobs: &mut [JobId], worker: WorkerId) {
        jobs.sort_by_key(|id| self.jobs[id].order(*id));
        for id in jobs {
            let job = self.jobs.get_mut(id).expect("it was found here");
            job.state = JobState::Running;
            job.attempt += 1;
            job.lease += 1;
            job.claimed_at = Some(self.now);
            job.worker = Some(worker);
        }
    }
}

impl Job {
    fn is_quarantined(&self, claim: &Claim) -> bool {
        self.crashes >= claim.quarantined_at
    }

    /// Whether the job was in a crash before, or its next attempt is its last one. Such a job is not prefetched.
    fn is_at_risk(&self) -> bool {
        self.crashes > 0 || self.attempt + 1 >= self.max_attempts
    }
}
