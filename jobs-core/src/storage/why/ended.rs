//! How a job has ended, and what to do.

use super::Reason;
use super::times::time;
use crate::failure::FailureKind;
use crate::job_id::JobId;
use crate::record::{AttemptError, JobRecord};
use crate::shell::argument;
use crate::state::JobState;

/// How the job has ended.
pub(super) fn of(job: &JobRecord, errors: &[AttemptError]) -> Reason {
    let last = errors.last().filter(|_| job.state != JobState::Completed);
    let operator = last.and_then(|error| error.actor.clone());
    // An operator, and not a failure, has ended it.
    let failure = last.filter(|_| operator.is_none()).map(|error| error.kind);
    let by = operator.or_else(|| job.worker.map(|worker| format!("worker {worker}")));
    let error = last.map(|error| error.message.clone());
    let JobRecord { state, finished_at: at, attempt, max_attempts, .. } = *job;
    Reason::Ended { state, at, by, error, failure, attempt, max_attempts }
}

/// Puts [`Reason::Ended`] in words.
pub(super) fn explain(id: JobId, kind: &str, reason: &Reason) -> (String, String) {
    let Reason::Ended { state, at, by, error, failure, attempt, max_attempts } = reason else {
        return Default::default();
    };
    let at = at.map(|at| format!(" at {}", time(at))).unwrap_or_default();
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let because = match (state, failure) {
        (JobState::Discarded, Some(failure)) => because(*failure, *attempt, *max_attempts),
        _ => String::new(),
    };
    let error = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let advice = match (state, failure) {
        (JobState::Completed, _) => String::new(),
        (_, Some(FailureKind::Undecodable)) => undecodable(id, kind, ""),
        _ => format!("`worker retry {id}` runs it again"),
    };
    (format!("the job was {state}{at}{by}{because}{error}"), advice)
}

/// What to do with a job whose arguments cannot be read. A retry alone would fail again.
pub(super) fn undecodable(id: JobId, kind: &str, before: &str) -> String {
    format!(
        "deploy a program that reads its arguments, then `worker retry {id}`; if the arguments are wrong, {before}enqueue the job again with \
         right ones: `worker enqueue {} ARGS`",
        argument(kind)
    )
}

/// Why there was no further attempt.
fn because(failure: FailureKind, attempt: u16, max_attempts: u16) -> String {
    match failure {
        _ if attempt == 0 => String::new(),
        FailureKind::Undecodable => {
            format!(" after {attempt} of {max_attempts} attempts, because its arguments cannot be read")
        }
        _ if max_attempts == 1 => " after its only attempt".to_owned(),
        _ if attempt >= max_attempts => format!(" after the last of its {attempt} attempts"),
        FailureKind::Error => format!(" after attempt {attempt} of {max_attempts}, without another one"),
        _ => format!(" after attempt {attempt} of {max_attempts}"),
    }
}
