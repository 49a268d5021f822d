//! Tenants in the model: those that wait for the same limit take turns.

use std::collections::{BTreeMap, VecDeque};

use diesel_jobs_core::JobId;

use super::state::ModelState;
use super::step::{Flow, LimitKey};

impl ModelState {
    /// Of these jobs, which are in the usual order, as many as there are free permits: each time the first one of the
    /// next tenant.
    pub(super) fn in_turns(&mut self, limit: LimitKey, in_order: &[JobId]) -> Vec<JobId> {
        let mut waiting: BTreeMap<&'static str, VecDeque<JobId>> = BTreeMap::new();
        for id in in_order {
            if let Flow::Fair(_, _, tenant) = self.jobs[id].flow {
                waiting.entry(tenant).or_default().push_back(*id);
            }
        }
        let mut admitted = Vec::new();
        for _ in 0..self.free(limit) {
            let last = self.last_tenants.get(&limit).copied().unwrap_or_default();
            let mut tenants = waiting.keys().copied();
            let Some(next) = tenants.find(|tenant| *tenant > last).or_else(|| waiting.keys().next().copied()) else {
                break;
            };
            if let Some(jobs) = waiting.get_mut(next) {
                admitted.extend(jobs.pop_front());
                if jobs.is_empty() {
                    waiting.remove(next);
                }
            }
            self.last_tenants.insert(limit, next);
        }
        admitted
    }

    /// A limit for which no job waits, and of which none has a permit, begins anew.
    pub(super) fn forget_last_tenants(&mut self) {
        if self.frozen {
            return;
        }
        let limits: Vec<LimitKey> = self.last_tenants.keys().copied().collect();
        for limit in limits {
            if self.in_order(limit).is_empty() && self.with_permit(limit).is_empty() {
                self.last_tenants.remove(&limit);
            }
        }
    }
}
