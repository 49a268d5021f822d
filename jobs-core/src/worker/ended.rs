//! What the worker does after a finish was written, or when it will never be written.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::report::Report;
use super::shared::Shared;
use crate::context::JobContext;
use crate::job_id::JobId;
use crate::lease::Lease;
use crate::outcome::Transition;
use crate::recorder::{AttemptOutcome, Event};
use crate::storage::Finished;
use crate::telemetry;

impl Shared {
    /// These finishes were written. Under the `valid` leases nothing was written yet. Under the other leases nothing
    /// will ever be written.
    pub(super) fn written(&self, reports: &[Report], finished: Finished, valid: &HashSet<Lease>, repeated: bool) {
        let Finished { moved, passed_on, is_free, .. } = finished;
        let all = moved.len() == reports.len();
        let moved: HashSet<JobId> = if all { HashSet::new() } else { moved.into_iter().collect() };
        let (mut ended, mut frees) = (Vec::with_capacity(reports.len()), false);
        for Report { ctx, transition, ran, may_be_settled } in reports {
            if all || moved.contains(&ctx.id()) {
                self.report(ctx, transition, *ran);
                ended.push(ctx.lease());
                frees |= ctx.claimed().flags.has_permit();
                continue;
            }
            if valid.contains(&ctx.lease()) {
                continue;
            }
            match (may_be_settled, repeated) {
                // The handler's own transaction has completed the job. If the lease was lost instead, this process has
                // usually heard of it.
                (true, _) if !ctx.stop().is_lost() => self.work.record_completion(ctx, *ran),
                (true, _) => {}
                // The transition was written by the statement whose reply was lost.
                (false, true) => self.work.record(ctx, transition, *ran),
                (false, false) => self.refused(ctx, transition.name()),
            }
            self.leases.invalidate(&ctx.lease());
        }
        if passed_on > 0 {
            self.wake.notify_one();
        }
        if is_free && frees {
            self.admission.notify_one();
        }
        self.leases.end(&ended);
    }

    /// The transition was written.
    pub(super) fn done(&self, ctx: &JobContext, transition: &Transition, ran: Duration) {
        self.report(ctx, transition, ran);
        if ctx.claimed().flags.has_permit() {
            self.admission.notify_one();
        }
    }

    fn report(&self, ctx: &JobContext, transition: &Transition, ran: Duration) {
        self.counters.count_finished(transition);
        self.work.record(ctx, transition, ran);
        if matches!(transition, Transition::Release) {
            // The job has its old `run_at` again, which may be below a scan floor.
            self.rescan_requested.notify_one();
        }
        telemetry::finished(ctx, transition, ran);
        self.settings.recorders.record(|| {
            let (outcome, error) = AttemptOutcome::of(transition);
            let wait = ctx.waited();
            let run = wait.is_some().then_some(ran);
            Event::AttemptEnded { queue: ctx.queue(), kind: ctx.kind(), outcome, error, wait, run }
        });
    }

    /// The lease was lost, or is believed to be lost. Nothing was written.
    fn refused(&self, ctx: &JobContext, refused: &str) {
        self.needs_reconcile.store(true, Ordering::Release);
        self.counters.count_lease_lost();
        if !ctx.stop().is_cancelled_by_operator() {
            telemetry::lease_lost(&ctx.lease(), ctx.kind(), refused);
        }
        self.settings.recorders.record(|| Event::LeaseLost { queue: ctx.queue(), kind: ctx.kind() });
    }

    /// The lease is lost. Nothing will be written.
    pub(super) fn lost(&self, ctx: &JobContext, refused: &str) {
        self.refused(ctx, refused);
        self.leases.invalidate(&ctx.lease());
    }
}
