//! Attempts are counted at the claim. The count must be exact: one for each failure and each crash, one for the attempt
//! that ended the job, none for attempts that were given back or whose worker was killed while it was stopping. It
//! never exceeds the maximum.

use crate::checker::{Kind, Run, Violation};
use crate::history::{Ending, Enqueued, Job};

pub(super) fn check(run: &Run<'_>) -> Vec<Violation> {
    let violations = run.known().filter_map(|(enqueued, job)| {
        let what = exceeded(run, enqueued, job).or_else(|| miscounted(run, enqueued, job))?;
        Some(Violation::new(Kind::Attempts, enqueued.number, what))
    });
    violations.collect()
}

fn exceeded(run: &Run<'_>, enqueued: &Enqueued, job: &Job) -> Option<String> {
    let most = i32::from(enqueued.max_attempts);
    let started = run.events(enqueued.number).iter().map(|event| i32::from(event.attempt)).max().unwrap_or_default();
    let reached = started.max(job.attempt);
    (reached > most).then(|| format!("it came to attempt {reached} of {most}"))
}

fn miscounted(run: &Run<'_>, enqueued: &Enqueued, job: &Job) -> Option<String> {
    job.finished_at?;
    let counted = run.failures(job).iter().filter(|failure| !matches!(failure.kind.as_str(), "cancelled" | "killed"));
    let failures = counted.count();
    let failures = i32::try_from(failures).unwrap_or(i32::MAX);
    // The last attempt of a discarded job is already counted as a failure. A job that an operator cancelled while it
    // waited had no attempt after its last failure.
    let ended_well = i32::from(job.state != "discarded");
    let waited = enqueued.ends == Ending::CalledOff && job.attempt == failures;
    if job.attempt != failures + ended_well && !waited {
        return Some(format!("it is at attempt {}, after {failures} failures", job.attempt));
    }
    let planned = i32::from(enqueued.failures) + ended_well;
    (run.promise.no_attempt_consumed && !waited && job.attempt != planned)
        .then(|| format!("it is at attempt {}, and its handler needed {planned}", job.attempt))
}
