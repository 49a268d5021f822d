//! The conclusion of an attempt: which transition follows from its end, and whether the job may have ended already.
//! This code writes nothing and waits for nothing.

use super::attempt::Ended;
use crate::context::JobContext;
use crate::decision::decided;
use crate::error::{FailureKind, JobError};
use crate::handler::Registration;
use crate::outcome::{Handled, Retention, Transition};
use crate::storage::Transacted;

/// What the executor does at the end of an attempt.
#[derive(Debug)]
pub(super) enum Conclusion {
    /// The transition is written already: the handler's transaction has committed it.
    Committed(Transition),
    /// The lease is lost, so nothing may be written.
    Lost,
    /// The transition must be written.
    Finish(Transition),
    /// The transition must be written if the job is still running. The job has ended already if the handler's own
    /// transaction was committed.
    Settle(Transition),
}

/// What a conclusion depends on, besides the end of the attempt.
pub(super) struct Circumstances<'a> {
    pub(super) registration: &'a Registration,
    pub(super) ctx: &'a JobContext,
    pub(super) retention: Retention,
    /// The worker has asked its handlers to stop.
    pub(super) stopping: bool,
    /// The lease stands, although the transaction's finish found no row under it.
    pub(super) lease_stands: bool,
}

const COMPLETED_TWICE: &str = "the handler called complete_in, but its own transaction completes the job: leave out the \
                               call, or take no connection as a parameter";
const ROW_CHANGED: &str = "the handler's transaction deleted or changed the row of its own running job, so it could not be \
                           completed and was rolled back";

impl Circumstances<'_> {
    pub(super) fn conclude(&self, ended: Ended) -> Conclusion {
        let completed_in = self.ctx.is_completed_in();
        let may_be_gone = completed_in || self.may_have_committed(&ended);
        let transition = match ended {
            Ended::Transacted(Transacted::Committed(transition)) => return Conclusion::Committed(transition),
            Ended::Transacted(Transacted::LeaseLost) if !self.lease_stands => return Conclusion::Lost,
            // The transaction is rolled back. The handler would do the same again, so this consumes an attempt.
            Ended::Transacted(Transacted::LeaseLost) => self.decide(Err(JobError::msg(match completed_in {
                true => COMPLETED_TWICE,
                false => ROW_CHANGED,
            }))),
            Ended::Lost if !completed_in => return Conclusion::Lost,
            // The job was committed with the handler's transaction, or its lease was lost. The release changes the job
            // only if the lease still stands.
            Ended::Lost => Transition::Release,
            Ended::GivenUp | Ended::Transacted(Transacted::Aborted | Transacted::NotBegun(_)) => Transition::Release,
            // A handler that returns an error because it was asked to stop did not fail.
            Ended::Handled(Err(_)) | Ended::Transacted(Transacted::RolledBack(_) | Transacted::Conflict { .. })
                if self.stopping =>
            {
                Transition::Release
            }
            // If the handler's transaction committed, the job is no longer in `running` and the finish changes nothing.
            // If it was rolled back, the job must run again.
            Ended::Handled(Ok(_)) if completed_in => {
                self.decide(Err(JobError::msg("complete_in was called, but its transaction did not commit")))
            }
            Ended::Handled(handled) => self.decide(handled),
            Ended::Transacted(Transacted::RolledBack(error) | Transacted::Conflict { error, .. }) => {
                self.decide(Err(error))
            }
            Ended::Transacted(Transacted::Unknown(problem)) => {
                self.decide(Err(JobError::msg(format!("the database failed around the commit: {problem}"))))
            }
            Ended::TimedOut(limit) => {
                let error = anyhow::Error::msg(format!("took longer than its timeout of {limit:?}"));
                self.decide(Err(JobError::of_kind(FailureKind::Timeout, error)))
            }
        };
        if may_be_gone { Conclusion::Settle(transition) } else { Conclusion::Finish(transition) }
    }

    /// Whether the handler's transaction may have committed although the attempt did not end with a commit.
    fn may_have_committed(&self, ended: &Ended) -> bool {
        match ended {
            Ended::TimedOut(_) | Ended::GivenUp | Ended::Transacted(Transacted::Aborted) => {
                self.registration.connection.is_some()
            }
            Ended::Transacted(Transacted::Unknown(_)) => true,
            _ => false,
        }
    }

    fn decide(&self, handled: Handled) -> Transition {
        decided(self.ctx, self.registration, self.retention, handled, rand::random())
    }
}
