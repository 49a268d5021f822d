//! The executor: runs one attempt of one job, from its start to its finish. It decides which transition follows from
//! the attempt's end. How the handler runs, and when it is stopped, is decided in [`attempt`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attempt::{self, Ended};
use super::panics;
use super::queues::Slot;
use super::report::Reporter;
use super::shared::Shared;
use crate::context::JobContext;
use crate::crash_point::crash_point;
use crate::error::{FailureKind, JobError};
use crate::handler::Registration;
use crate::outcome::{Attempt, Handled, Transition, decide};
use crate::storage::Transacted;
use crate::telemetry;

/// How long a job that found no connection waits in its slot before it goes back.
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
        let Some(registration) = self.shared.registry.get(ctx.kind()) else {
            // A claim asks for registered kinds only. If a storage returns another kind all the same, the job is given
            // back.
            self.reporter.report(ctx, Transition::Release).await;
            return Some(slot);
        };
        if ctx.is_cancelled() {
            // The job was cancelled while it was prefetched.
            if ctx.stop().is_lost() {
                self.shared.lost(&ctx, "start");
            } else {
                self.reporter.report(ctx, Transition::Release).await;
            }
            return Some(slot);
        }
        crash_point("start");
        let started = Instant::now();
        ctx.start(started);
        let (ended, slot) = attempt::run(&self.shared, registration, &ctx, slot).await;
        self.conclude(registration, ctx, ended, started.elapsed()).await;
        slot
    }

    /// Decides the transition that follows from the attempt's end, and reports it.
    pub(super) async fn conclude(&self, registration: &Registration, ctx: JobContext, ended: Ended, ran: Duration) {
        crash_point("ended");
        if matches!(ended, Ended::Handled(Ok(_)) | Ended::Transacted(Transacted::Committed(_))) {
            self.shared.usual.ended(registration.kind, ran);
        }
        let stopping = self.shared.phases.stopping().is_cancelled();
        // A transaction that was given up during its commit may have been committed.
        let given_up = matches!(ended, Ended::TimedOut(_) | Ended::GivenUp | Ended::Transacted(Transacted::Aborted));
        let may_be_settled = given_up && registration.connection.is_some();
        let transition = match ended {
            Ended::Transacted(Transacted::Committed(transition)) => {
                self.shared.done(&ctx, &transition, ran);
                return self.shared.leases.end([&ctx.lease()]);
            }
            Ended::Transacted(Transacted::NotBegun(problem)) => {
                self.shared.no_connection.report(&problem);
                // The job keeps its slot meanwhile, so that the next job does not ask for a connection at once.
                tokio::select! {
                    () = tokio::time::sleep(NO_CONNECTION) => {}
                    () = self.shared.phases.draining().cancelled() => {}
                }
                Transition::Release
            }
            // The job was committed with the handler's transaction, or its lease was lost. The release changes the job
            // only if the lease still stands.
            Ended::Lost if ctx.is_completed_in() => Transition::Release,
            Ended::Lost | Ended::Transacted(Transacted::LeaseLost) => return self.shared.lost(&ctx, "finish"),
            Ended::GivenUp | Ended::Transacted(Transacted::Aborted) => Transition::Release,
            // A handler that returns an error because it was asked to stop did not fail.
            Ended::Handled(Err(_)) | Ended::Transacted(Transacted::RolledBack(_) | Transacted::Conflict { .. })
                if stopping =>
            {
                Transition::Release
            }
            Ended::Handled(Ok(_)) if ctx.is_completed_in() => {
                // If the handler's transaction committed, the job is no longer in `running` and this finish changes
                // nothing. If it was rolled back, the job must run again.
                let error = JobError::msg("complete_in was called, but its transaction did not commit");
                let transition = self.decide(registration, &ctx, Err(error));
                return self.reporter.settle(ctx, transition, ran).await;
            }
            Ended::Handled(handled) => self.decide(registration, &ctx, handled),
            Ended::Transacted(Transacted::RolledBack(error) | Transacted::Conflict { error, .. }) => {
                self.decide(registration, &ctx, Err(error))
            }
            Ended::Transacted(Transacted::Unknown(problem)) => {
                crash_point("unknown");
                telemetry::unknown_commit(ctx.id(), &problem);
                let error = JobError::msg(format!("the database failed around the commit: {problem}"));
                let transition = self.decide(registration, &ctx, Err(error));
                return self.reporter.settle(ctx, transition, ran).await;
            }
            Ended::TimedOut(limit) => {
                let error = anyhow::Error::msg(format!("took longer than its timeout of {limit:?}"));
                self.decide(registration, &ctx, Err(JobError::of_kind(FailureKind::Timeout, error)))
            }
        };
        if may_be_settled || ctx.is_completed_in() {
            // In the second case the handler completed the job itself and then failed. Whether its transaction
            // committed decides which of the two holds.
            return self.reporter.settle(ctx, transition, ran).await;
        }
        self.reporter.finish(ctx, transition, ran).await;
    }

    fn decide(&self, registration: &Registration, ctx: &JobContext, handled: Handled) -> Transition {
        let attempt = Attempt {
            attempt: ctx.attempt(),
            max_attempts: ctx.max_attempts(),
            options: &registration.options,
            retention: self.shared.settings.retention,
        };
        // A custom backoff is user code. If it panics, the worker must still finish the lease.
        let decided =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| decide(attempt, handled, rand::random())));
        decided.unwrap_or_else(|payload| {
            let error = panics::described(payload).retry_in(Duration::from_secs(60));
            decide(attempt, Err(error), 0.0)
        })
    }
}
