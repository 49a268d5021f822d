//! What the worker does when a finish was written, or will never be.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::report::Report;
use super::shared::Shared;
use crate::context::JobContext;
use crate::job::JobId;
use crate::lease::Lease;
use crate::outcome::Transition;
use crate::telemetry;

impl Shared {
    /// These of the finishes were written, and nothing so far under the leases that stand; under those of the others nothing
    /// ever will be.
    pub(super) fn written(&self, reports: &[Report], moved: Vec<JobId>, standing: &HashSet<Lease>, repeated: bool) {
        let all = moved.len() == reports.len();
        let moved: HashSet<JobId> = if all { HashSet::new() } else { moved.into_iter().collect() };
        let mut ended = Vec::with_capacity(reports.len());
        for Report { ctx, transition, ran, may_be_settled } in reports {
            if all || moved.contains(&ctx.id()) {
                self.done(ctx, transition, *ran);
                ended.push(ctx.lease());
                continue;
            }
            if standing.contains(&ctx.lease()) {
                continue;
            }
            if !may_be_settled && !repeated {
                self.refused(ctx, transition.verb());
            }
            self.leases.spend(&ctx.lease());
        }
        self.leases.end(&ended);
    }

    /// The transition is written.
    pub(super) fn done(&self, ctx: &JobContext, transition: &Transition, ran: Duration) {
        self.counters.count_finished(transition);
        if matches!(transition, Transition::Release) {
            // It waits again where it stood, and claims have passed that place.
            self.came_back.notify_one();
        }
        telemetry::finished(ctx.kind(), &ctx.lease(), transition, ran);
    }

    /// The lease was gone, or taken for gone; nothing was written.
    fn refused(&self, ctx: &JobContext, verb: &str) {
        self.needs_reconcile.store(true, Ordering::Release);
        self.counters.count_lease_lost();
        telemetry::lease_lost(&ctx.lease(), ctx.kind(), verb);
    }

    /// The lease is gone; nothing will be written.
    pub(super) fn lost(&self, ctx: &JobContext, verb: &str) {
        self.refused(ctx, verb);
        self.leases.spend(&ctx.lease());
    }
}
