//! Why a waiting job does not run, from what operators have set and which workers are alive.

use diesel_jobs_core::storage::{KindSettings, QueueSettings};
use diesel_jobs_core::{Freeze, JobRecord, JobState, WorkerRecord};

/// The reasons, the strongest first. Empty if the job only waits for its turn, or does not wait.
pub(crate) fn reasons(
    job: &JobRecord,
    frozen: Option<&Freeze>,
    queues: &[QueueSettings],
    kinds: &[KindSettings],
    workers: &[WorkerRecord],
) -> Vec<String> {
    if !job.state.is_waiting() {
        return Vec::new();
    }
    let mut reasons: Vec<String> = frozen.map(|freeze| format!("The database is {freeze}.")).into_iter().collect();
    let queue = queues.iter().find(|queue| queue.name == job.queue);
    if let Some(pause) = queue.and_then(|queue| queue.paused.as_ref()) {
        reasons.push(format!("Its queue is {pause}."));
    }
    if queue.is_some_and(|queue| queue.slots == Some(0)) {
        reasons.push("Its queue has no slots: an operator has set them to 0.".to_owned());
    }
    if let Some(pause) = kinds.iter().find(|kind| kind.name == job.kind).and_then(|kind| kind.paused.as_ref()) {
        reasons.push(format!("Its kind is {pause}."));
    }
    let serving: Vec<_> = workers.iter().filter(|worker| worker.alive && worker.queues.contains(&job.queue)).collect();
    match (workers.iter().any(|worker| worker.alive), serving.is_empty()) {
        (false, _) => reasons.push("No worker is alive.".to_owned()),
        (true, true) => reasons.push(format!("No live worker serves the queue {}.", job.queue)),
        (true, false) if serving.iter().all(|worker| worker.asked.is_some()) => {
            reasons.push("All workers that serve its queue were asked to claim nothing more.".to_owned());
        }
        _ => {}
    }
    match job.state {
        JobState::Scheduled => reasons.push("It waits for its time.".to_owned()),
        JobState::Retrying => reasons.push("Its last attempt failed. It waits for the next one.".to_owned()),
        _ => {}
    }
    reasons
}
