//! The conclusion of an attempt: its result, which transition follows from it, and whether the job may have ended
//! already. This code writes nothing and waits for nothing.

use super::attempt::Ended;
use crate::context::JobContext;
use crate::decision::decided;
use crate::error::{FailureKind, JobError};
use crate::handler::Registration;
use crate::outcome::{Handled, Kept, Transition};
use crate::storage::{Interruption, MOST_KILLS, Transacted};

/// What the executor does at the end of an attempt.
#[derive(Debug)]
pub(super) enum Conclusion {
    /// The transition is written already: the handler's transaction has committed it.
    Committed(Transition),
    /// The lease is lost, so nothing may be written.
    Lost,
    /// The attempt was withdrawn before it began. Who has withdrawn it releases the job.
    Withdrawn,
    /// The transition must be written.
    Finish(Transition),
    /// The transition must be written if the job is still running. The job has ended already if the handler's own
    /// transaction was committed.
    Settle(Transition),
}

/// The result of an attempt.
pub(super) enum AttemptResult {
    /// The handler's transaction is committed, with this transition.
    Committed(Transition),
    /// The lease is lost.
    Lost,
    /// The attempt ended without a result, and the job is released.
    Released { may_be_gone: bool },
    /// The attempt succeeded or failed. The job may have ended already.
    Handled { handled: Handled, may_be_gone: bool },
}

/// What a conclusion depends on, besides the end of the attempt.
pub(super) struct Circumstances<'a> {
    pub(super) registration: &'a Registration,
    pub(super) ctx: &'a JobContext,
    pub(super) kept: Kept,
    /// The worker has asked its handlers to stop.
    pub(super) stopping: bool,
    /// The lease is valid, although the transaction's finish found no row under it.
    pub(super) is_lease_valid: bool,
}

/// How many claims that consumed no attempt a job may have before its next interruption consumes one. The reason may be
/// the handler itself, because its statements crash the server or use up its memory: its attempts must come to an end.
const MOST_RELEASES: u16 = 3;
/// The same if an administrator has ended the session or stopped the server, which is not the handler's doing.
const MOST_RELEASES_BY_ADMINISTRATOR: u16 = MOST_KILLS;

const COMPLETED_TWICE: &str = "the handler called complete_in, but its own transaction completes the job: leave out the \
                               call, or take no connection as a parameter";
const ROW_CHANGED: &str = "the handler's transaction deleted or changed the row of its own running job, so it could not be \
                           completed and was rolled back";

impl Circumstances<'_> {
    pub(super) fn result(&self, ended: Ended) -> AttemptResult {
        let completed_in = self.ctx.is_completed_in();
        let may_be_gone = completed_in || self.may_have_committed(&ended);
        let released = AttemptResult::Released { may_be_gone };
        let handled = match ended {
            Ended::Transacted(Transacted::Committed(transition)) => return AttemptResult::Committed(transition),
            Ended::Transacted(Transacted::LeaseLost) if !self.is_lease_valid => return AttemptResult::Lost,
            // The transaction is rolled back. The handler would do the same again, so this consumes an attempt.
            Ended::Transacted(Transacted::LeaseLost) => Err(JobError::msg(match completed_in {
                true => COMPLETED_TWICE,
                false => ROW_CHANGED,
            })),
            Ended::Lost if !completed_in => return AttemptResult::Lost,
            // The job was committed with the handler's transaction, or its lease was lost. The release changes the job
            // only if the lease is still valid.
            Ended::Lost => return released,
            Ended::GivenUp | Ended::Transacted(Transacted::Aborted | Transacted::NotBegun(_)) => return released,
            // A handler that returns an error because it was asked to stop did not fail.
            Ended::Handled(Err(_))
            | Ended::Transacted(Transacted::RolledBack(_) | Transacted::Conflict { .. } | Transacted::Interrupted(_))
                if self.stopping =>
            {
                return released;
            }
            Ended::Transacted(Transacted::Interrupted(by)) if self.was_rarely_released(&by) => return released,
            Ended::Handled(handled) => handled,
            Ended::Transacted(
                Transacted::RolledBack(error)
                | Transacted::Conflict { error, .. }
                | Transacted::Interrupted(Interruption { error, .. }),
            ) => Err(error),
            Ended::Transacted(Transacted::Unknown(problem)) => {
                Err(JobError::msg(format!("the database failed around the commit: {problem}")))
            }
            Ended::TimedOut(limit) => {
                let error = anyhow::Error::msg(format!("took longer than its timeout of {limit:?}"));
                Err(JobError::of_kind(FailureKind::Timeout, error))
            }
        };
        AttemptResult::Handled { handled, may_be_gone }
    }

    pub(super) fn conclude(&self, result: AttemptResult) -> Conclusion {
        let (transition, may_be_gone) = match result {
            AttemptResult::Committed(transition) => return Conclusion::Committed(transition),
            AttemptResult::Lost => return Conclusion::Lost,
            AttemptResult::Released { may_be_gone } => (Transition::Release, may_be_gone),
            // The handler has called `complete_in`. If its transaction committed, the job is no longer in `running` and
            // the finish changes nothing. If it was rolled back, the job must run again.
            AttemptResult::Handled { handled: Ok(_), may_be_gone: true } => {
                let error = JobError::msg("complete_in was called, but its transaction did not commit");
                (self.decide(Err(error)), true)
            }
            AttemptResult::Handled { handled, may_be_gone } => (self.decide(handled), may_be_gone),
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
            Ended::Transacted(Transacted::Interrupted(interruption)) => interruption.may_have_committed,
            _ => false,
        }
    }

    /// Whether so few earlier claims of the job consumed no attempt that this interruption consumes none, either.
    fn was_rarely_released(&self, by: &Interruption) -> bool {
        let most = if by.by_administrator { MOST_RELEASES_BY_ADMINISTRATOR } else { MOST_RELEASES };
        self.ctx.lease().number - i32::from(self.ctx.attempt()) < i32::from(most)
    }

    fn decide(&self, handled: Handled) -> Transition {
        decided(self.ctx, self.registration, self.kept, handled, rand::random())
    }
}
