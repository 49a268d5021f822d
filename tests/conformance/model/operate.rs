//! The operations of operators and of the pruner, in the model.

use std::collections::BTreeMap;

use diesel_jobs_core::storage::Operated;
use diesel_jobs_core::{FailureKind, JobId, JobState, Keep, KindStats, Retention};

use super::state::ModelState;
use super::step::Flow;

impl ModelState {
    /// Makes the job available now, with at least one attempt left, no crashes, and a lease number of at least 1.
    pub(super) fn retry(&mut self, id: JobId) -> Operated {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return Operated::NotFound };
        match job.state {
            JobState::Running | JobState::Completed => Operated::Refused(job.state),
            _ => {
                // An available job with a limit keeps its permit.
                job.held |= job.state.is_finished() && job.flow != Flow::Free;
                job.wait_again(Some(now));
                job.max_attempts = job.max_attempts.max(job.attempt + 1);
                job.crashes = 0;
                job.lease = job.lease.max(1);
                Operated::Done
            }
        }
    }

    /// Ends the job, whether it waits or runs. A lease on it is lost.
    pub(super) fn cancel(&mut self, id: JobId) -> Operated {
        let expires_at = self.until(Keep::For(Retention::default().cancelled));
        let Some(job) = self.jobs.get_mut(&id) else { return Operated::NotFound };
        if job.state.is_finished() {
            return Operated::Refused(job.state);
        }
        job.fail_somehow(FailureKind::Cancelled);
        job.end(JobState::Cancelled, expires_at);
        self.give_back(id, JobState::Cancelled);
        Operated::Done
    }

    /// Cancels all jobs. Returns how many.
    pub(super) fn cancel_all(&mut self) -> usize {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        ids.into_iter().filter(|id| self.cancel(*id) == Operated::Done).count()
    }

    /// Returns the jobs whose retention has ended, the oldest first. Returns none during a freeze.
    pub(super) fn expired(&self) -> Vec<JobId> {
        if self.frozen {
            return Vec::new();
        }
        let expired = self.jobs.iter().filter_map(|(id, job)| job.expires_at.map(|at| (at, *id)));
        let mut expired: Vec<_> = expired.filter(|(at, _)| *at <= self.now).collect();
        expired.sort();
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the number of jobs in each state, by queue and kind.
    pub(super) fn stats(&self) -> Vec<KindStats> {
        let mut stats: BTreeMap<(&str, &str), KindStats> = BTreeMap::new();
        for job in self.jobs.values() {
            let row = stats.entry((job.queue, job.kind)).or_insert_with(|| KindStats {
                queue: job.queue.to_owned(),
                kind: job.kind.to_owned(),
                available: 0,
                scheduled: 0,
                retrying: 0,
                held: 0,
                running: 0,
                completed: 0,
                cancelled: 0,
                discarded: 0,
                oldest_wait_seconds: None,
            });
            let waited = (self.now - job.run_at).as_seconds_f64();
            let count = match job.state_at(self.now) {
                JobState::Available => {
                    row.oldest_wait_seconds = Some(row.oldest_wait_seconds.map_or(waited, |oldest| oldest.max(waited)));
                    &mut row.available
                }
                JobState::Scheduled => &mut row.scheduled,
                JobState::Held => &mut row.held,
                JobState::Retrying => &mut row.retrying,
                JobState::Running => &mut row.running,
                JobState::Completed => &mut row.completed,
                JobState::Cancelled => &mut row.cancelled,
                JobState::Discarded => &mut row.discarded,
                state => unreachable!("the model has no jobs that are {state}"),
            };
            *count += 1;
        }
        stats.into_values().collect()
    }
}
