//! Queues that the options name and the program does not: they are served, and the log reports which jobs wait in them.
//! And default queues of the program that are not served.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel_jobs_core::storage::{JobFilter, Operator, Paging};
use diesel_jobs_core::{JobState, UnknownQueue, Worker};

/// How many waiting jobs of a queue are read. The newest ones show what the queue is used for.
const SAMPLE: usize = 1000;

/// How long reading these queues may delay the start.
const WAIT_FOR_DATABASE: Duration = Duration::from_secs(2);

/// Reads each of these queues and logs the result. Waiting jobs of this program's kinds mean that the queue is
/// intended. No such jobs mean that its name may be a typing error.
pub(super) async fn say(worker: &mut Worker, operator: &dyn Operator) {
    let unknown = worker.take_unknown_queues();
    let ours: BTreeSet<String> = worker.registry().kinds().into_iter().collect();
    let deadline = tokio::time::Instant::now() + WAIT_FOR_DATABASE;
    for queue in &unknown {
        let filter = JobFilter { states: vec![JobState::Available], ..JobFilter::of_queue(queue.name.clone()) };
        let page = tokio::time::timeout_at(deadline, operator.list(&filter, Paging::newest(SAMPLE))).await;
        // A queue that cannot be read is reported as empty.
        let jobs = page.ok().and_then(Result::ok).unwrap_or_default().jobs;
        let kinds: BTreeSet<String> = jobs.into_iter().map(|job| job.kind).collect();
        match note(queue, &kinds, &ours) {
            Note::Meant(text) => tracing::info!(target: "diesel_jobs", { worker.queue = queue.name }, "{text}"),
            Note::Doubtful(text) => tracing::warn!(target: "diesel_jobs", { worker.queue = queue.name }, "{text}"),
        }
    }
}

/// Logs which default queues of this program the worker does not serve. Options that name the queues are meant so. A
/// set-up function that names one queue may leave out the others by mistake.
pub(super) fn say_left_out(left_out: &[String], options_name_queues: bool) {
    if left_out.is_empty() {
        return;
    }
    let text = format!(
        "this worker does not serve {}, although jobs of this program go there by default: if any queues are named, a worker serves only \
         those. Let another worker serve the others, or name them, too: in `--queues`, or with `.serve(..)` in the set-up function",
        listed(left_out)
    );
    match options_name_queues {
        true => tracing::info!(target: "diesel_jobs", "{text}"),
        false => tracing::warn!(target: "diesel_jobs", "{text}"),
    }
}

/// The queues, as a part of a sentence.
pub(super) fn listed(queues: &[String]) -> String {
    let names: Vec<_> = queues.iter().map(|queue| format!("`{queue}`")).collect();
    match &names[..] {
        [name] => format!("queue {name}"),
        _ => format!("the queues {}", names.join(", ")),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Note {
    Meant(String),
    Doubtful(String),
}

/// Returns the log line for a queue in which jobs of these kinds wait.
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
