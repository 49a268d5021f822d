//! Jobs that do not wait although their limit is full: they are discarded, or the oldest jobs of their key are
//! cancelled.

use std::collections::BTreeMap;

use diesel_jobs_core::storage::WaitEnd;
use diesel_jobs_core::{FailureKind, JobId, JobState, Keep, OnFull, Retention};

use super::state::ModelState;
use super::step::{Flow, LimitKey};
use super::world::{Divergence, World, agree, answered};
use crate::fixture::Fixture;

/// The queue, the kind and the state of a job that has ended.
type Ended = (String, String, JobState);

impl ModelState {
    /// Ends the jobs. Those that could start now are left to admission.
    fn end_full(&mut self, retention: Retention) -> Vec<Ended> {
        let rule = |flow: Flow| match flow {
            Flow::Full(_, _, rule) => Some((flow.limit()?, rule)),
            _ => None,
        };
        let limits: BTreeMap<LimitKey, OnFull> = self.jobs.values().filter_map(|job| rule(job.flow)).collect();
        let mut ended = Vec::new();
        for (limit, rule) in limits {
            let behind: Vec<JobId> = self.in_order(limit).into_iter().skip(self.free(limit)).collect();
            // A job that has started waits.
            let full: Vec<JobId> = behind.into_iter().filter(|id| self.jobs[id].lease == 0).collect();
            if rule == OnFull::Discard {
                ended.extend(self.end_all(&full, JobState::Discarded, retention.discarded));
            } else if !full.is_empty() {
                let oldest = self.oldest(limit);
                ended.extend(self.end_all(&oldest, JobState::Cancelled, retention.cancelled));
            }
        }
        ended
    }

    /// The oldest jobs of a limit, waiting or started, behind as many newer ones as may run at once. One job is left in
    /// any case.
    fn oldest(&self, limit: LimitKey) -> Vec<JobId> {
        let started = self.with_permit(limit);
        let left = (self.free(limit) + started.len()).max(1);
        let mut jobs = [started, self.in_order(limit)].concat();
        jobs.sort();
        jobs.truncate(jobs.len().saturating_sub(left));
        jobs
    }

    fn end_all(&mut self, ids: &[JobId], state: JobState, keep: std::time::Duration) -> Vec<Ended> {
        let expires_at = self.until(Keep::For(keep));
        let mut ended = Vec::new();
        for id in ids {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            job.fail_somehow(FailureKind::Cancelled);
            job.end(state, expires_at);
            ended.push((job.queue.to_owned(), job.kind.to_owned(), state));
            self.give_back(*id, state);
        }
        ended
    }
}

impl<F: Fixture> World<'_, F> {
    /// The pass of admission comes first, as in a worker: it puts jobs that have become due into the order of
    /// admission.
    pub(super) async fn end_full(&mut self) -> Result<(), Divergence> {
        self.admit().await?;
        let retention = Retention::default();
        let ended = answered("end_full", self.db.storage.end_waiting(WaitEnd::LimitFull, retention).await)?;
        let mut ended: Vec<Ended> = ended.ended.into_iter().map(|one| (one.queue, one.kind, one.state)).collect();
        let mut expected = self.model.end_full(retention);
        let by_text = |(queue, kind, state): &Ended| (queue.clone(), kind.clone(), state.as_str());
        ended.sort_by_key(by_text);
        expected.sort_by_key(by_text);
        agree("the jobs that ended because their limit was full", &expected, &ended)
    }
}
