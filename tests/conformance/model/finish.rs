//! How an attempt ends, under its lease or not at all.

use diesel_jobs_core::{JobState, Keep, Lease, Transition};

use super::life::Life;

impl Life {
    /// `false`: the lease is lost, and nothing is written.
    pub(super) fn finish(&mut self, lease: Lease, transition: &Transition) -> bool {
        let now = self.now;
        let expires_at = |keep: &Keep| self.until(*keep);
        let (end, expires_at) = match transition {
            Transition::Complete(keep) => (Some((JobState::Completed, *keep)), expires_at(keep)),
            Transition::Cancel { keep, .. } => (Some((JobState::Cancelled, *keep)), expires_at(keep)),
            Transition::Discard { keep, .. } => (Some((JobState::Discarded, *keep)), expires_at(keep)),
            Transition::Retry { .. } | Transition::Snooze(_) | Transition::Release => (None, None),
        };
        let Some(job) = self.held(lease) else { return false };
        if let Some(failure) = transition.failure() {
            job.fail(failure);
        }
        match transition {
            Transition::Retry { delay, .. } => job.wait_again(Some(now + *delay)),
            // Not an attempt, and whoever snoozes has not crashed: it may do so for years.
            Transition::Snooze(delay) => {
                job.wait_again(Some(now + *delay));
                job.attempt -= 1;
                job.crashes = 0;
            }
            Transition::Release => {
                job.wait_again(None);
                job.attempt -= 1;
            }
            Transition::Complete(_) | Transition::Cancel { .. } | Transition::Discard { .. } => {}
        }
        match end {
            // Its failures go with it.
            Some((_, Keep::Nothing)) => drop(self.jobs.remove(&lease.job)),
            Some((state, _)) => job.end(state, expires_at),
            None => {}
        }
        true
    }
}
