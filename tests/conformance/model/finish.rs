//! The ends of attempts in the model. Without the lease, nothing changes.

use diesel_jobs_core::{JobState, Keep, Lease, Transition};

use super::state::ModelState;
use super::step::Flow;

impl ModelState {
    /// Returns `false` if the lease is lost. Then nothing is changed.
    pub(super) fn finish(&mut self, lease: Lease, transition: &Transition) -> bool {
        let now = self.now;
        let expires_at = |keep: &Keep| self.until(*keep);
        let (end, expires_at) = match transition {
            Transition::Complete(keep) | Transition::CompleteWith(keep, _) => {
                (Some((JobState::Completed, *keep)), expires_at(keep))
            }
            Transition::Cancel { keep, .. } => (Some((JobState::Cancelled, *keep)), expires_at(keep)),
            Transition::Discard { keep, .. } => (Some((JobState::Discarded, *keep)), expires_at(keep)),
            Transition::Retry { .. } | Transition::Snooze(_) | Transition::Release => (None, None),
        };
        let Some(job) = self.held(lease) else { return false };
        if let Some(failure) = transition.failure() {
            job.fail(failure);
        }
        // A job with a limit waits for its limit again.
        job.held = matches!(transition, Transition::Retry { .. } | Transition::Snooze(_)) && job.flow != Flow::Free;
        match transition {
            Transition::Retry { delay, .. } => job.wait_again(Some(now + *delay)),
            // A snooze consumes no attempt, and resets the crashes, because a job may snooze for years.
            Transition::Snooze(delay) => {
                job.wait_again(Some(now + *delay));
                job.attempt -= 1;
                job.crashes = 0;
            }
            Transition::Release => {
                job.wait_again(None);
                job.attempt -= 1;
            }
            Transition::Complete(_)
            | Transition::CompleteWith(..)
            | Transition::Cancel { .. }
            | Transition::Discard { .. } => {}
        }
        if let Some((state, _)) = end {
            self.give_back(lease.job, state);
        }
        let Some(job) = self.jobs.get_mut(&lease.job) else { return true };
        match end {
            // Its failures are deleted, too.
            Some((_, Keep::Nothing)) => drop(self.jobs.remove(&lease.job)),
            Some((state, _)) => job.end(state, expires_at),
            None => {}
        }
        true
    }
}
