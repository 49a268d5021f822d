//! No phantom: a job whose enqueue was rolled back never runs. A job that was enqueued once exists once. No job starts
//! before it was enqueued.

use crate::checker::{Kind, Run, Violation};
use crate::history::CommitOutcome;

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut phantom = |number, what: &str| found.push(Violation::new(Kind::Phantom, number, what));
    for enqueued in run.record.enqueued.iter().filter(|row| row.outcome == CommitOutcome::RolledBack) {
        if run.jobs.contains_key(&enqueued.number) {
            phantom(enqueued.number, "its enqueue was rolled back, and it exists");
        } else if !run.events(enqueued.number).is_empty() {
            phantom(enqueued.number, "its enqueue was rolled back, and it ran");
        }
    }
    for (number, jobs) in &run.jobs {
        if !run.enqueued.contains_key(number) {
            phantom(*number, "it exists, and nobody enqueued it");
        } else if let [first, second, ..] = jobs.as_slice() {
            phantom(*number, &format!("it was enqueued once and exists twice, as {} and {}", first.id, second.id));
        }
    }
    for number in run.events.keys().filter(|number| !run.enqueued.contains_key(number)) {
        phantom(*number, "it ran, and nobody enqueued it");
    }
    for (enqueued, job) in run.known() {
        if run.events(enqueued.number).iter().any(|event| event.at < job.enqueued_at) {
            phantom(enqueued.number, "it ran before it was enqueued");
        }
    }
    found
}
