//! The rescue in the model: what happens to the jobs of workers that died or left.

use std::collections::BTreeMap;

use diesel_jobs_core::storage::{MOST_KILLS, RescuePolicy, Rescued};
use diesel_jobs_core::{FailureKind, JobId, JobState, Keep, WorkerId};

use super::state::ModelState;

impl ModelState {
    /// `orphans`: whether jobs whose worker is not registered are freed, too.
    pub(super) fn rescue(&mut self, policy: RescuePolicy, orphans: bool) -> Rescued {
        let dead: Vec<WorkerId> = self.workers.keys().copied().filter(|id| self.is_dead(*id)).collect();
        let mut lost: BTreeMap<WorkerId, Vec<JobId>> = BTreeMap::new();
        for lease in self.leases() {
            if dead.contains(&lease.worker) || orphans && !self.workers.contains_key(&lease.worker) {
                lost.entry(lease.worker).or_default().push(lease.job);
            }
        }
        let drained: Vec<WorkerId> = dead.iter().copied().filter(|id| self.workers[id].drains).collect();
        self.workers.retain(|id, _| !dead.contains(id));
        let mut rescued = Rescued::default();
        for (worker, jobs) in &lost {
            for id in jobs {
                if drained.contains(worker) && self.release_killed(*id) {
                    rescued.released.push(*id);
                    continue;
                }
                let discarded = self.count_crash(*id, policy, jobs.len() == 1);
                if discarded { &mut rescued.discarded } else { &mut rescued.returned }.push(*id);
            }
        }
        rescued.returned.sort();
        rescued.discarded.sort();
        rescued.released.sort();
        rescued.quarantined_due = self
            .jobs
            .values()
            .any(|job| job.waits() && job.crashes >= policy.quarantined_at() && job.run_at <= self.now);
        rescued
    }

    /// Releases a job whose worker was killed while it was draining, unless that has happened too often.
    fn release_killed(&mut self, id: JobId) -> bool {
        let job = self.jobs.get_mut(&id).expect("it has a lease");
        let kills = job.failures.iter().filter(|failure| failure.kind == FailureKind::Killed).count();
        if kills >= MOST_KILLS.into() {
            return false;
        }
        job.fail_somehow(FailureKind::Killed);
        job.attempt = job.attempt.saturating_sub(1);
        job.wait_again(None);
        true
    }

    /// Counts the crash, and returns whether the job is discarded because of it. Only a job that was alone in its
    /// process is discarded for crashes. Of several jobs it is not known which one caused the crash, so they are
    /// quarantined at most.
    fn count_crash(&mut self, id: JobId, policy: RescuePolicy, alone: bool) -> bool {
        let expires_at = self.until(Keep::For(policy.retention.discarded));
        let job = self.jobs.get_mut(&id).expect("it has a lease");
        job.fail_somehow(FailureKind::Crash);
        if alone || job.crashes < policy.quarantined_at() {
            job.crashes += 1;
        }
        let discarded = alone && job.crashes >= policy.max_crashes || job.attempt >= job.max_attempts;
        if discarded {
            job.end(JobState::Discarded, expires_at);
            self.give_back(id, JobState::Discarded);
        } else {
            job.wait_again(None);
        }
        discarded
    }
}
