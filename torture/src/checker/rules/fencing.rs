//! Fencing: the stored end was written by the attempt that held the lease, after that attempt had ended. No attempt ran
//! under a newer lease.

use super::leases::undone_by;
use crate::checker::{Kind, Run, Violation};
use crate::history::{Ending, Enqueued, Event, Job};

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (enqueued, job) in run.known() {
        found.extend(newer(run, job).map(|what| Violation::new(Kind::StaleWrite, job.number, what)));
        found.extend(unearned(run, enqueued, job).map(|what| Violation::new(Kind::StaleWrite, job.number, what)));
        found.extend(foreign_failure(run, job).map(|what| Violation::new(Kind::StaleWrite, job.number, what)));
    }
    found
}

/// Returns a text if an attempt ran under a newer lease than the one that ended the job. A crash may undo a claim whose
/// attempt has begun. The job then waits again under the lease before that one, and an end that no attempt wrote may
/// meet it there after the crash.
fn newer(run: &Run<'_>, job: &Job) -> Option<String> {
    let finished_at = job.finished_at?;
    let undone = |event: &Event| {
        let next = job.worker.is_none() && event.lease == job.lease + 1;
        next && undone_by(run, event).is_some_and(|crash| crash <= finished_at)
    };
    let newer = run.events(job.number).iter().find(|event| event.lease > job.lease && !undone(event))?;
    Some(format!("lease {} ended it, and lease {} ran", job.lease, newer.lease))
}

/// Returns a text if the job ended before the attempt that holds the ending lease reported that end.
fn unearned(run: &Run<'_>, enqueued: &Enqueued, job: &Job) -> Option<String> {
    let finished_at = job.finished_at?;
    let earns = match (job.state.as_str(), enqueued.ends) {
        ("completed", Ending::Completed) => "ok",
        ("cancelled", Ending::Cancelled) => "cancel",
        _ => return None,
    };
    let said: Vec<&&Event> = run.events(job.number).iter().filter(|event| event.what == earns).collect();
    let own = said.iter().find(|event| (event.lease, Some(event.worker)) == (job.lease, job.worker));
    match (own, said.first()) {
        (None, None) => None, // no attempt reported this end: the rule `lost` finds that
        (None, Some(other)) => {
            Some(format!("it ended under lease {}, and only lease {} had come to that", job.lease, other.lease))
        }
        // A transactional finish stores the time at which its transaction began.
        (Some(own), _) if !enqueued.transactional && own.at > finished_at => {
            Some(format!("lease {} ended it before its attempt had ended", job.lease))
        }
        (Some(_), _) => None,
    }
}

/// Returns a text if a failure was counted for another attempt than the one that failed.
fn foreign_failure(run: &Run<'_>, job: &Job) -> Option<String> {
    run.failures(job).iter().find_map(|failure| {
        let lease: i32 = failure.message.split_once("under lease ")?.1.split_once(';')?.0.parse().ok()?;
        let attempt = run.events(job.number).iter().find(|event| event.lease == lease)?.attempt;
        (attempt != failure.attempt)
            .then(|| format!("a failure of lease {lease}, attempt {attempt}, counts for attempt {}", failure.attempt))
    })
}
