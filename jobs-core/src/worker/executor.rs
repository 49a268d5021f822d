//! The executor: one attempt of one job, from lease to finish. Each handler runs in a task of its own; this one watches
//! it, and ends it when its time, its lease or the worker's grace is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::completer::Reporter;
use super::slots::Slot;
use super::{Shared, panics};
use crate::context::JobContext;
use crate::error::{FailureKind, JobError};
use crate::handler::{Handler, Registration};
use crate::lease::ClaimedJob;
use crate::outcome::{Attempt, Finish, Handled, Keep, Outcome, Transition, decide};
use crate::storage::{Body, Transacted, Transaction};
use crate::telemetry;

/// A handler that was told to stop gets this long before its end is recorded without it.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// How an attempt ended, as far as this process knows.
enum Ended {
    Handled(Handled),
    Transacted(Transacted),
    TimedOut(Duration),
    /// The worker stops and gives the job back.
    GivenUp,
    /// The lease is gone; nothing may be written.
    Lost,
}

/// Starts the attempt; its slot is free again when the handler has ended.
pub(super) fn start(shared: &Arc<Shared>, job: ClaimedJob, slot: Slot, lost: CancellationToken, reporter: Reporter) {
    let span = telemetry::job_span(&job);
    let executor = Executor { shared: shared.clone(), lost, reporter };
    shared.executors.spawn(executor.execute(job, slot).instrument(span));
}

struct Executor {
    shared: Arc<Shared>,
    lost: CancellationToken,
    reporter: Reporter,
}

impl Executor {
    async fn execute(self, job: ClaimedJob, slot: Slot) {
        let Some(registration) = self.shared.registry.get(&job.kind).copied() else {
            // A claim asks for registered kinds only; should a storage ever hand out another, it is given back.
            return self.finish(&job, Transition::Release, Instant::now()).await;
        };
        let started = Instant::now();
        let token = self.shared.phases.stopping().child_token();
        let keep = match self.decide(&registration, &job, Ok(Outcome::Complete)) {
            Transition::Complete(keep) => keep,
            _ => Keep::Forever,
        };
        let ctx = JobContext::keeping(job.clone(), token.clone(), self.shared.states.clone(), keep);
        let ended = self.run(&registration, &job, ctx.clone(), slot, &token).await;
        let stopping = self.shared.phases.stopping().is_cancelled();
        // A transaction given up in the middle of its commit may have been committed.
        let given_up = matches!(ended, Ended::TimedOut(_) | Ended::GivenUp | Ended::Transacted(Transacted::Aborted));
        let may_be_settled = given_up && registration.connection.is_some();
        let transition = match ended {
            Ended::Transacted(Transacted::Committed(transition)) => {
                return self.shared.done(&job.kind, job.lease, &transition, started.elapsed());
            }
            Ended::Lost | Ended::Transacted(Transacted::LeaseLost) => {
                return self.shared.lost(&job.kind, job.lease, "finish");
            }
            Ended::GivenUp | Ended::Transacted(Transacted::Aborted) => Transition::Release,
            // A handler that was asked to stop and says so by an error did not fail.
            Ended::Handled(Err(_)) | Ended::Transacted(Transacted::RolledBack(_)) if stopping => Transition::Release,
            Ended::Handled(Ok(_)) if ctx.is_completed_in() => {
                return self.confirm_completed_in(&registration, &job, started).await;
            }
            Ended::Handled(handled) => self.decide(&registration, &job, handled),
            Ended::Transacted(Transacted::RolledBack(error)) => self.decide(&registration, &job, Err(error)),
            Ended::Transacted(Transacted::Unknown(problem)) => {
                telemetry::unknown_commit(ctx.id(), &problem);
                let error = JobError::msg(format!("the database failed around the commit: {problem}"));
                let transition = self.decide(&registration, &job, Err(error));
                return self.settle(&job, transition, started).await;
            }
            Ended::TimedOut(limit) => {
                let error = anyhow::Error::msg(format!("took longer than its timeout of {limit:?}"));
                self.decide(&registration, &job, Err(JobError::of_kind(FailureKind::Timeout, error)))
            }
        };
        if may_be_settled || ctx.is_completed_in() {
            // Or the handler completed the job itself and then failed: which of the two holds is the commit's to say.
            return self.settle(&job, transition, started).await;
        }
        self.finish(&job, transition, started).await;
    }

    fn decide(&self, registration: &Registration, job: &ClaimedJob, handled: Handled) -> Transition {
        let attempt = Attempt {
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            options: &registration.options,
            retention: self.shared.settings.retention,
        };
        // A custom backoff is the user's code: its panic must not cost the worker a lease.
        let decided =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| decide(attempt, handled, rand::random())));
        decided.unwrap_or_else(|payload| {
            let error = panics::described(&*payload).retry_in(Duration::from_secs(60));
            decide(attempt, Err(error), 0.0)
        })
    }

    async fn finish(&self, job: &ClaimedJob, transition: Transition, started: Instant) {
        self.reporter.finish(&job.kind, Finish { lease: job.lease, transition }, started.elapsed()).await;
    }

    /// A finish that may find its job gone because the handler's own commit went through.
    async fn settle(&self, job: &ClaimedJob, transition: Transition, started: Instant) {
        self.reporter.settle(&job.kind, Finish { lease: job.lease, transition }, started.elapsed()).await;
    }

    /// The handler called `complete_in` and answered well. If its transaction committed, the job is gone from
    /// `running` and this finds nothing; if it was rolled back after all, the job must run again.
    async fn confirm_completed_in(&self, registration: &Registration, job: &ClaimedJob, started: Instant) {
        let error = JobError::msg("complete_in was called, but its transaction did not commit");
        let transition = self.decide(registration, job, Err(error));
        self.settle(job, transition, started).await;
    }

    async fn run(
        &self,
        registration: &Registration,
        job: &ClaimedJob,
        ctx: JobContext,
        slot: Slot,
        token: &CancellationToken,
    ) -> Ended {
        let span = tracing::Span::current();
        let abort = CancellationToken::new();
        let mut handler: JoinHandle<Ended> = match registration.handler {
            Handler::Async(handle) => tokio::spawn(
                async move {
                    let _slot = slot;
                    Ended::Handled(panics::caught(async move { handle(ctx).await }).await)
                }
                .instrument(span),
            ),
            Handler::Blocking(handle) => tokio::task::spawn_blocking(move || {
                let _slot = slot;
                span.in_scope(|| Ended::Handled(panics::caught_blocking(|| handle(ctx))))
            }),
            Handler::AsyncTransactional(_) | Handler::BlockingTransactional(_) => {
                let Some(transaction) = self.transaction(registration, job, ctx, slot, abort.clone()) else {
                    return Ended::Handled(Err(JobError::msg("a transactional job without a connection")));
                };
                let storage = self.shared.storage.clone();
                tokio::spawn(async move { Ended::Transacted(storage.transact(transaction).await) }.instrument(span))
            }
        };
        let ended = tokio::select! {
            ended = &mut handler => return joined(ended),
            limit = over(registration.options.timeout) => Ended::TimedOut(limit),
            () = self.shared.phases.now().cancelled() => Ended::GivenUp,
            () = self.lost.cancelled() => Ended::Lost,
        };
        token.cancel();
        if registration.connection.is_some() {
            // Never dropped half-way: the storage ends the transaction it owns.
            abort.cancel();
        } else {
            handler.abort();
        }
        match tokio::time::timeout(LAST_MOMENT, &mut handler).await {
            // What was committed at the last moment is committed.
            Ok(Ok(Ended::Transacted(Transacted::Committed(transition)))) => {
                Ended::Transacted(Transacted::Committed(transition))
            }
            _ => ended,
        }
    }

    /// The handler and the decision on its answer, as the storage runs them between `begin` and `commit`. The slot goes with
    /// the handler: a blocking one may outlive its transaction.
    fn transaction(
        &self,
        registration: &Registration,
        job: &ClaimedJob,
        ctx: JobContext,
        slot: Slot,
        abort: CancellationToken,
    ) -> Option<Transaction> {
        let connection = registration.connection?().id;
        let retention = self.shared.settings.retention;
        let (attempt, max_attempts, options) = (job.attempt, job.max_attempts, registration.options);
        let decided = move |outcome: Outcome| {
            decide(Attempt { attempt, max_attempts, options: &options, retention }, Ok(outcome), 0.0)
        };
        let body = match registration.handler {
            Handler::AsyncTransactional(handle) => Body::Async(Box::new(move |connection| {
                Box::pin(async move {
                    let _slot = slot;
                    panics::caught(async move { handle(connection, ctx).await }).await.map(decided)
                })
            })),
            Handler::BlockingTransactional(handle) => Body::Blocking(Box::new(move |connection| {
                let _slot = slot;
                panics::caught_blocking(|| handle(connection, ctx)).map(decided)
            })),
            Handler::Async(_) | Handler::Blocking(_) => return None,
        };
        Some(Transaction { connection, lease: job.lease, body, abort })
    }
}

/// A task that ended without an answer panicked where nothing catches it: while its future was dropped.
fn joined(ended: Result<Ended, tokio::task::JoinError>) -> Ended {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(payload) => Ended::Handled(Err(panics::described(&*payload))),
        Err(_) => Ended::GivenUp,
    })
}

/// Ready when the time is over; never without a limit.
async fn over(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}
