//! What is done to jobs, in words.

use diesel_jobs_core::storage::{Action, Count};

use super::output::time;

/// `3,000 jobs`, or `10,000+ jobs`.
pub(super) fn jobs(count: &Count) -> String {
    let noun = if count.jobs == 1 && count.is_exact { "job" } else { "jobs" };
    format!("{count} {noun}")
}

/// An exact number of jobs.
pub(super) fn exactly(jobs: u64) -> String {
    self::jobs(&Count { jobs, is_exact: true })
}

/// The command of an action.
pub(super) fn command(action: &Action) -> &'static str {
    match action {
        Action::RunNow => "run-now",
        other => other.as_str(),
    }
}

/// What is done to these jobs: `retry 7 jobs`.
pub(super) fn to_do(action: &Action, jobs: &str) -> String {
    match action {
        Action::RunNow => format!("make {jobs} due now"),
        Action::Reschedule(at) => format!("reschedule {jobs} to {}", time(*at)),
        Action::Reprioritise(priority) => format!("set the priority of {jobs} to {priority}"),
        Action::Move(queue) => format!("move {jobs} to the queue `{queue}`"),
        Action::Rerun => format!("enqueue {jobs} again"),
        other => format!("{} {jobs}", other.as_str()),
    }
}

/// What the action means for the jobs.
pub(super) fn effect(action: &Action) -> &'static str {
    match action {
        Action::Retry => "they are due now, with at least one attempt left; those with rules still wait for their turn",
        Action::RunNow => {
            "they become due now, and nothing else about them changes; those with rules still wait for their turn"
        }
        Action::Reschedule(_) => "they start at that time or later, and nothing else about them changes",
        Action::Cancel => {
            "waiting jobs will not run; the handlers of running jobs are asked to stop, and their results are refused"
        }
        Action::Delete => "they are deleted with their failures and outputs, which cannot be undone",
        Action::Discard => "they are discarded, as if they were out of attempts",
        Action::Reprioritise(_) => "jobs with a higher priority are claimed first",
        Action::Move(_) => "workers of that queue will run them",
        Action::Rerun => "each is enqueued under a new id with all its attempts, and the ended jobs stay",
        _ => "they change",
    }
}

/// What a job is after the action.
pub(super) fn done(action: &Action) -> String {
    match action {
        Action::Retry | Action::RunNow => "due now".to_owned(),
        Action::Reschedule(at) => format!("rescheduled to {}", time(*at)),
        Action::Cancel => "cancelled".to_owned(),
        Action::Delete => "deleted".to_owned(),
        Action::Discard => "discarded".to_owned(),
        Action::Reprioritise(priority) => format!("priority set to {priority}"),
        Action::Move(queue) => format!("moved to the queue `{queue}`"),
        Action::Rerun => "enqueued again".to_owned(),
        other => format!("{} is done", other.as_str()),
    }
}

/// Why the action does not apply to a job.
pub(super) fn refused(action: &Action) -> &'static str {
    match action {
        Action::Retry => "only cancelled, discarded and waiting jobs can be retried",
        Action::Cancel => "it has ended already, so there is nothing to cancel",
        Action::Delete => "a running job cannot be deleted; cancel it first",
        Action::Rerun => "only jobs that have ended can be enqueued again",
        Action::RunNow => "only waiting jobs can be made due",
        Action::Reschedule(_) => "only waiting jobs can be rescheduled",
        Action::Discard => "only waiting jobs can be discarded",
        Action::Reprioritise(_) => "only waiting jobs have a priority that matters",
        Action::Move(_) => "only waiting jobs can be moved",
        _ => "the action does not apply to it",
    }
}

/// The number with commas.
pub(super) fn grouped(number: u64) -> String {
    Count { jobs: number, is_exact: true }.to_string()
}
