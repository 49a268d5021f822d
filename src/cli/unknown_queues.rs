//! Queues that the options name and the program does not: served, with a word in the log on what was found there.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel_jobs_core::storage::{JobFilter, Operator};
use diesel_jobs_core::{JobState, UnknownQueue, Worker};

/// How many waiting jobs are looked at. The newest tell what a queue is for.
const SAMPLE: usize = 1000;

/// A start is not held up by this for longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks into each of them, and logs what it saw: jobs there mean that the queue is meant, none that it may be a typing error.
pub(super) async fn say(worker: &mut Worker, operator: &dyn Operator) {
    let unknown = worker.take_unknown_queues();
    let ours: BTreeSet<String> = worker.registry().kinds().into_iter().collect();
    for queue in &unknown {
        let filter = JobFilter {
            state: Some(JobState::Available),
            queue: Some(queue.name.clone()),
            limit: SAMPLE,
            ..JobFilter::default()
        };
        let jobs = tokio::time::timeout(PATIENCE, operator.list(&filter)).await;
        // What cannot be looked into is not known to hold anything.
        let jobs = jobs.ok().and_then(Result::ok).unwrap_or_default();
        let kinds: BTreeSet<String> = jobs.into_iter().map(|job| job.kind).collect();
        match note(queue, &kinds, &ours) {
            Note::Meant(text) => tracing::info!(target: "diesel_jobs", { worker.queue = queue.name }, "{text}"),
            Note::Doubtful(text) => tracing::warn!(target: "diesel_jobs", { worker.queue = queue.name }, "{text}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Note {
    Meant(String),
    Doubtful(String),
}

/// What is said of a queue in which jobs of these kinds wait.
fn note(queue: &UnknownQueue, found: &BTreeSet<String>, ours: &BTreeSet<String>) -> Note {
    let name = &queue.name;
    let list = |kinds: &mut dyn Iterator<Item = &String>| kinds.map(String::as_str).collect::<Vec<_>>().join(", ");
    let may_run = list(&mut ours.iter());
    let foreign = list(&mut found.difference(ours));
    let served = list(&mut found.intersection(ours));
    if found.is_empty() {
        return Note::Doubtful(format!(
            "queue `{name}` is served, although no job waits in it and none of this program goes there by default; {}. Jobs of \
             these kinds run there if they name it when they are enqueued: {may_run}",
            queue.hint()
        ));
    }
    let begin =
        format!("queue `{name}` is served, although no job of this program goes there by default: found waiting");
    match (served.as_str(), foreign.as_str()) {
        (served, "") => Note::Meant(format!("{begin} {served}. These kinds may run there: {may_run}")),
        ("", foreign) => Note::Doubtful(format!(
            "{begin} only {foreign}, which this program has no handler for. These kinds may run there: {may_run}"
        )),
        (served, foreign) => Note::Meant(format!(
            "{begin} {served}, and {foreign}, which this program has no handler for. These kinds may run there: {may_run}"
        )),
    }
}
