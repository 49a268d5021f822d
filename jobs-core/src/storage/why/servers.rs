//! The workers that could run a job, and what is missing if there is none.

use super::Reason;
use crate::nearest::nearest;
use crate::queue_pattern::is_pattern;
use crate::record::{JobRecord, WorkerRecord};

/// The live workers that serve the queue of the job and claim jobs.
pub(super) fn claiming<'a>(job: &JobRecord, workers: &'a [WorkerRecord]) -> Vec<&'a WorkerRecord> {
    workers.iter().filter(|worker| worker.alive && worker.serves(&job.queue) && worker.claims()).collect()
}

/// What the job lacks, if none of the workers that serve its queue can run it.
pub(super) fn missing(job: &JobRecord, serving: &[&WorkerRecord], workers: &[WorkerRecord]) -> Option<Reason> {
    let alive = || workers.iter().filter(|worker| worker.alive);
    if serving.is_empty() {
        let quiet = alive().filter(|worker| worker.serves(&job.queue)).count();
        let served = alive().flat_map(|worker| &worker.queues).map(String::as_str).filter(|name| !is_pattern(name));
        let near = nearest(&job.queue, served).filter(|_| quiet == 0).map(str::to_owned);
        return Some(Reason::NoWorker { alive: alive().count(), quiet, near });
    }
    if serving.iter().any(|worker| may_know(worker, &job.kind)) {
        return None;
    }
    let known = serving.iter().filter_map(|worker| worker.kinds.as_ref()).flatten().map(String::as_str);
    let near = nearest(&job.kind, known).map(str::to_owned);
    Some(Reason::UnknownKind { workers: serving.len(), near })
}

/// Workers of earlier versions do not say which kinds they know.
fn may_know(worker: &WorkerRecord, kind: &str) -> bool {
    worker.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|known| known == kind))
}
