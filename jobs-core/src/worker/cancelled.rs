//! Finds out whether lost leases were lost because operators have cancelled the jobs. It logs who has cancelled each
//! job.

use std::collections::HashMap;

use super::shared::Shared;
use crate::context::JobContext;
use crate::job_id::JobId;
use crate::telemetry;

impl Shared {
    /// Reads once what became of the jobs of these attempts, whose leases are lost. If the database does not answer,
    /// the leases count as lost for an unknown reason.
    pub(crate) async fn find_cancelled(&self, lost: &[&JobContext]) {
        let unknown: HashMap<JobId, &JobContext> =
            lost.iter().filter(|ctx| !ctx.stop().is_cancelled_by_operator()).map(|ctx| (ctx.id(), *ctx)).collect();
        if unknown.is_empty() {
            return;
        }
        let jobs: Vec<JobId> = unknown.keys().copied().collect();
        let worker = *self.id.borrow();
        for cancelled in self.storage.leases(worker, Some(&jobs)).await.unwrap_or_default().cancelled {
            if let Some(ctx) = unknown.get(&cancelled.job)
                && ctx.stop().mark_cancelled()
            {
                telemetry::cancelled(ctx, cancelled.by.as_deref());
            }
        }
    }
}
