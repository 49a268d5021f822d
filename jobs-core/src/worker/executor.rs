//! The executor: runs one attempt of one job through its steps. The start is checked, the handler runs, the end of the
//! attempt is concluded, and the conclusion is reported.
//!
//! | step | file | does |
//! |---|---|---|
//! | may_start | here | refuses a job that must not start, and cancels one that has expired |
//! | before, after | [`layers`] | calls the worker's layers, before the handler and after its end is known |
//! | load | [`rows`] | loads the rows of a handler that takes no connection |
//! | run | [`attempt`], [`threads`](super::threads) | calls the handler, and ends the attempt when its time is over |
//! | conclude | [`conclusion`](super::conclusion) | decides which transition follows |
//! | report | here | hands the transition to the completer, or records that it is committed or that the lease is lost |

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attempt::{self, Ended};
use super::conclusion::{AttemptResult, Circumstances, Conclusion};
use super::layers;
use super::queue::Slot;
use super::report::Reporter;
use super::rows;
use super::shared::Shared;
use super::valid_leases::valid_leases;
use crate::context::JobContext;
use crate::crash_point::crash_point;
use crate::expiry::expired;
use crate::handler::{Handler, Registration};
use crate::outcome::Transition;
use crate::storage::{Interruption, Transacted};
use crate::storage_error::StorageError;
use crate::telemetry;

/// How long a job that found no connection waits in its slot before it is released.
const NO_CONNECTION: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Executor {
    pub(super) shared: Arc<Shared>,
    reporter: Reporter,
}

impl Executor {
    pub(super) fn new(shared: Arc<Shared>, reporter: Reporter) -> Self {
        Self { shared, reporter }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.shared.phases.draining().is_cancelled()
    }

    /// Runs the attempt and reports its finish. Returns the slot, unless the handler still occupies it.
    pub(super) async fn execute(&self, ctx: JobContext, slot: Slot) -> Option<Slot> {
        let registration = match self.may_start(&ctx) {
            Ok(registration) => registration,
            Err(conclusion) => {
                self.report(ctx, conclusion, "start", Duration::ZERO).await;
                return Some(slot);
            }
        };
        crash_point("start");
        let started = Instant::now();
        ctx.start(started);
        let ended_before = match self.shared.settings.layers.is_empty() {
            true => None,
            false => Box::pin(layers::before(&self.shared, registration, &ctx)).await,
        };
        let (ended, slot) = match (ended_before, registration.handler) {
            (Some(ended), _) => (ended, Some(slot)),
            (None, Handler::WithRows(handler)) => rows::run(&self.shared, registration, handler, &ctx, slot).await,
            (None, _) => attempt::run(&self.shared, registration, &ctx, slot).await,
        };
        if let Ended::Transacted(Transacted::NotBegun(problem)) = &ended {
            self.wait_for_connections(problem).await;
        }
        self.conclude(registration, ctx, ended, started.elapsed()).await;
        slot
    }

    /// Returns the job's registration, or the conclusion of a job that must not start.
    pub(super) fn may_start(&self, ctx: &JobContext) -> Result<&Registration, Conclusion> {
        if !ctx.begin() {
            return Err(Conclusion::Withdrawn);
        }
        if ctx.is_cancelled() {
            // The attempt was asked to stop before it started: its lease is lost, or the worker shuts down.
            let lost = ctx.stop().is_lost();
            return Err(if lost { Conclusion::Lost } else { Conclusion::Finish(Transition::Release) });
        }
        // A claim asks for registered kinds only. If a storage returns another kind nevertheless, the job is released.
        let registration = self.shared.registry.get(ctx.kind()).ok_or(Conclusion::Finish(Transition::Release))?;
        if ctx.is_expired() {
            let keep = self.shared.live.kept(registration).cancelled;
            return Err(Conclusion::Finish(Transition::Cancel { reason: expired(), keep }));
        }
        Ok(registration)
    }

    /// Concludes an attempt that has ended, and reports the conclusion.
    pub(super) async fn conclude(&self, registration: &Registration, ctx: JobContext, ended: Ended, ran: Duration) {
        crash_point("ended");
        ctx.end();
        match &ended {
            Ended::Transacted(Transacted::Committed(Transition::Retry { .. } | Transition::Discard { .. })) => {}
            Ended::Handled(Ok(_)) | Ended::Transacted(Transacted::Committed(_)) => {
                self.shared.usual_durations.ended(registration.kind, ran);
            }
            Ended::Transacted(Transacted::Unknown(problem)) => {
                crash_point("unknown");
                telemetry::unknown_commit(ctx.id(), problem);
            }
            Ended::Transacted(Transacted::Interrupted(Interruption { may_have_committed: true, error, .. })) => {
                crash_point("unknown");
                telemetry::unknown_commit(ctx.id(), error);
            }
            _ => {}
        }
        let interruption = match &ended {
            Ended::Transacted(Transacted::Interrupted(Interruption { may_have_committed: false, error, .. })) => {
                Some(error.to_string())
            }
            _ => None,
        };
        let (kept, stopping) = (self.shared.live.kept(registration), self.shared.phases.stopping().is_cancelled());
        let is_lease_valid =
            matches!(ended, Ended::Transacted(Transacted::LeaseLost)) && self.is_lease_valid(&ctx).await;
        let circumstances = Circumstances { registration, ctx: &ctx, kept, stopping, is_lease_valid };
        let mut result = circumstances.result(ended);
        if !self.shared.settings.layers.is_empty() {
            result = Box::pin(layers::observe(&self.shared, registration, &ctx, result)).await;
        }
        if let (AttemptResult::Released { .. }, Some(error)) = (&result, interruption) {
            telemetry::interrupted(ctx.id(), &error);
        }
        let conclusion = circumstances.conclude(result);
        self.report(ctx, conclusion, "finish", ran).await;
    }

    /// Keeps the slot of the job occupied for a while, so that the next job does not ask for a connection at once.
    pub(super) async fn wait_for_connections(&self, problem: &StorageError) {
        self.shared.no_connection.report(problem);
        tokio::select! {
            () = tokio::time::sleep(NO_CONNECTION) => {}
            () = self.shared.phases.draining().cancelled() => {}
        }
    }

    /// Whether the lease is valid. If the database does not answer, the lease counts as lost, and the reconciler checks
    /// it later.
    async fn is_lease_valid(&self, ctx: &JobContext) -> bool {
        let valid = valid_leases(&*self.shared.storage, &[ctx.lease()]).await;
        valid.is_ok_and(|valid| !valid.is_empty())
    }

    /// Reports a conclusion. If the lease is lost, the log names `refused`: the `start` or the `finish`.
    pub(super) async fn report(&self, ctx: JobContext, conclusion: Conclusion, refused: &str, ran: Duration) {
        match conclusion {
            Conclusion::Committed(transition) => {
                self.shared.done(&ctx, &transition, ran);
                self.shared.leases.end([&ctx.lease()]);
            }
            Conclusion::Lost => {
                self.shared.find_cancelled(&[&ctx]).await;
                self.shared.lost(&ctx, refused);
            }
            Conclusion::Withdrawn => {}
            Conclusion::Finish(transition) => self.reporter.finish(ctx, transition, ran).await,
            Conclusion::Settle(transition) => self.reporter.settle(ctx, transition, ran).await,
        }
    }
}
