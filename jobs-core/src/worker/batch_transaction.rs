//! Runs the handler of a batch inside one transaction, which also finishes its jobs. If leases were lost meanwhile,
//! nothing is committed, and the handler runs again at once with the other jobs. This consumes no attempt. Each such
//! run has fewer jobs, so it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::attempt::Ended;
use super::conflicts;
use super::queue::Slot;
use super::shared::Shared;
use super::valid_leases::valid_leases;
use crate::batch_handler::{BatchAnswer, FailedBatch, TransactionalBatch};
use crate::context::JobContext;
use crate::decision::decided;
use crate::error::JobError;
use crate::handler::Registration;
use crate::lease::Lease;
use crate::outcome::Transition;
use crate::storage::{Body, Transacted, Transaction};
use crate::telemetry;

const COMPLETED_TWICE: &str = "the handler of the batch called complete_in, but its own transaction completes the jobs: leave out the \
                               call, or take no connection";
const ROWS_CHANGED: &str = "the transaction of the batch deleted or changed the row of one of its running jobs, so they could not be \
                            completed and everything was rolled back";

/// The errors of jobs that failed by themselves, in the order of the jobs.
type Alone = Arc<Mutex<Vec<Option<JobError>>>>;

/// What the runs of a batch have in common.
pub(super) struct BatchTransaction {
    pub(super) shared: Arc<Shared>,
    pub(super) registration: Registration,
    pub(super) call: TransactionalBatch,
    /// Ends the transaction.
    pub(super) abort: CancellationToken,
}

/// What the call of a handler returns: the end of each attempt, and the slot, unless the handler still occupies it.
pub(super) struct Called {
    pub(super) ends: Vec<Ended>,
    pub(super) slot: Option<Slot>,
}

impl BatchTransaction {
    pub(super) async fn run(self, jobs: Vec<JobContext>, slot: Slot) -> Called {
        let slot = Arc::new(slot);
        let mut ends: HashMap<Lease, Ended> = HashMap::with_capacity(jobs.len());
        let mut left = jobs.clone();
        while !left.is_empty() {
            let lost = match self.transact(&left, &slot).await {
                Ok(ended) => {
                    ends.extend(left.iter().map(JobContext::lease).zip(ended));
                    break;
                }
                Err(lost) => lost,
            };
            left.retain(|ctx| !lost.contains(&ctx.lease()));
            telemetry::batch_runs_again(self.registration.kind, lost.len(), left.len());
            ends.extend(lost.into_iter().map(|lease| (lease, Ended::Lost)));
        }
        let end = |ctx: &JobContext| ends.remove(&ctx.lease()).unwrap_or(Ended::GivenUp);
        // `into_inner` returns `None` while a blocking handler that still runs holds the slot.
        Called { ends: jobs.iter().map(end).collect(), slot: Arc::into_inner(slot) }
    }

    /// Runs the handler with these jobs. Returns the end of each attempt, or the leases that were lost.
    async fn transact(&self, jobs: &[JobContext], slot: &Arc<Slot>) -> Result<Vec<Ended>, Vec<Lease>> {
        let Some(connection) = self.registration.connection else {
            let error = JobError::msg("a transactional batch without a connection");
            return Ok(jobs.iter().map(|_| Ended::Handled(Err(error.for_another_job()))).collect());
        };
        let (storage, alone) = (&*self.shared.storage, Alone::default());
        let transaction = Transaction {
            connection: connection().id,
            jobs: jobs.into(),
            body: self.body(jobs.to_vec(), alone.clone(), slot.clone()),
            abort: self.abort.clone(),
        };
        let transacted = match self.abort.is_cancelled() {
            true => Transacted::Aborted,
            false => conflicts::transact(storage, transaction).await,
        };
        let mut alone = std::mem::take(&mut *alone.lock().unwrap_or_else(PoisonError::into_inner));
        alone.resize_with(jobs.len(), || None);
        let transacted = match transacted {
            Transacted::LeaseLost => {
                let leases: Vec<Lease> = jobs.iter().map(JobContext::lease).collect();
                // If the database does not answer, all leases count as lost, and the reconciler checks them later.
                let valid = valid_leases(storage, &leases).await.unwrap_or_default();
                let lost: Vec<Lease> = leases.into_iter().filter(|lease| !valid.contains(lease)).collect();
                if !lost.is_empty() {
                    return Err(lost);
                }
                // The handler would do the same again, so this consumes an attempt.
                let completed = jobs.iter().any(JobContext::is_completed_in);
                Transacted::RolledBack(JobError::msg(if completed { COMPLETED_TWICE } else { ROWS_CHANGED }))
            }
            transacted => transacted,
        };
        let rolled_back = matches!(transacted, Transacted::RolledBack(_));
        let ends = transacted.of_each(jobs.len()).into_iter().zip(alone);
        Ok(ends
            .map(|(ended, own)| match own.filter(|_| rolled_back) {
                Some(error) => Ended::Handled(Err(error)),
                None => Ended::Transacted(ended),
            })
            .collect())
    }

    /// What runs inside the transaction. A handler may outlive its transaction. It keeps the slot until it has ended.
    fn body(&self, jobs: Vec<JobContext>, alone: Alone, slot: Arc<Slot>) -> Body {
        let decide = self.decision(jobs.clone(), alone);
        match self.call {
            TransactionalBatch::Async(handle) => Body::Async(Arc::new(move |connection| {
                let (decide, jobs) = (decide.clone(), jobs.clone());
                Box::pin(async move { decide(handle(connection, jobs).await) })
            })),
            TransactionalBatch::Blocking(handle) => Body::Blocking(Arc::new(move |connection| {
                let _slot = &slot;
                decide(handle(connection, jobs.clone()))
            })),
        }
    }

    /// The transitions that follow from the answer of the handler.
    fn decision(
        &self,
        jobs: Vec<JobContext>,
        alone: Alone,
    ) -> impl Fn(BatchAnswer) -> Result<Vec<Transition>, JobError> + Clone + Send + Sync + use<> {
        let (registration, live) = (self.registration, self.shared.live.clone());
        move |answer| match answer {
            Ok(results) => {
                let kept = live.kept(&registration);
                let decide = |(ctx, handled)| decided(ctx, &registration, kept, handled, rand::random());
                Ok(jobs.iter().zip(results).map(decide).collect())
            }
            Err(FailedBatch { error, alone: own }) => {
                *alone.lock().unwrap_or_else(PoisonError::into_inner) = own;
                Err(error)
            }
        }
    }
}
