//! No loss: each acknowledged job exists, and it ended as planned, as its handler reported.

use crate::checker::{Kind, Run, Violation};
use crate::history::{CommitOutcome, Ending};

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let lost = |number, what: &str| Violation::new(Kind::Lost, number, what);
    let mut found = Vec::new();
    for enqueued in &run.record.enqueued {
        let number = enqueued.number;
        match enqueued.outcome {
            CommitOutcome::Acknowledged if !run.jobs.contains_key(&number) => {
                found.push(lost(number, "its enqueue was acknowledged, and there is no such job"));
            }
            CommitOutcome::Unknown if !run.jobs.contains_key(&number) && !run.events(number).is_empty() => {
                found.push(lost(number, "it ran, and there is no such job"));
            }
            _ => {}
        }
    }
    for (enqueued, job) in run.known() {
        if job.finished_at.is_none() {
            continue;
        }
        let number = enqueued.number;
        if job.state != enqueued.ends.state() {
            found.push(lost(number, &format!("it was to be {}, and is {}", enqueued.ends.state(), job.state)));
            continue;
        }
        let said = |what: &str| run.events(number).iter().any(|event| event.what == what);
        if enqueued.ends == Ending::Completed && !said("ok") {
            found.push(lost(number, "it counts as completed, and no attempt ended well"));
        } else if enqueued.ends == Ending::Cancelled && !said("cancel") {
            found.push(lost(number, "it counts as cancelled, and no attempt said so"));
        } else if enqueued.ends == Ending::Completed && enqueued.transactional && run.effects(number).is_empty() {
            found.push(lost(number, "it is completed, and its effect is missing"));
        }
    }
    found
}
