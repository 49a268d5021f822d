//! The workers: what each runs now, and since when.

use std::collections::HashMap;

use askama::Template;
use diesel_jobs_core::storage::QueueSettings;
use diesel_jobs_core::{LeasedJob, WorkerId, WorkerRecord};

use super::{Visit, render};
use crate::failure::Page;
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// This many workers are on the page.
const SHOWN: usize = 200;
/// How many running jobs of all workers are read, the longest first.
const EXAMINED: usize = 2000;
/// How many running jobs of a worker are shown.
const JOBS: usize = 8;

/// A worker, and what it runs.
struct Working {
    worker: WorkerRecord,
    running: Vec<LeasedJob>,
    /// Its queues with their slots, as operators have set them.
    slots: Vec<(String, Option<u32>)>,
    /// How many more jobs it runs.
    more: usize,
}

/// The queues of a worker with their slots.
fn slots(worker: &WorkerRecord, settings: &[QueueSettings]) -> Vec<(String, Option<u32>)> {
    let set = |queue: &str| settings.iter().find(|setting| setting.name == queue).and_then(|setting| setting.slots);
    worker.queues.iter().map(|queue| (queue.clone(), worker.slots_of(queue, set(queue)))).collect()
}

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    shell: Shell,
    workers: Vec<Working>,
    /// How many more workers there are.
    left_out: usize,
}

pub(crate) async fn workers(visit: Visit) -> Page {
    let shell = visit.shell(Place::Workers, "Workers").await?.live("/workers", &visit.query);
    let operator = visit.site.operator();
    let (mut workers, settings) = (operator.workers().await?, operator.queues().await?);
    // Those that live first, then those that were seen last.
    workers.sort_by_key(|worker| (!worker.alive, std::cmp::Reverse(worker.heartbeat_at)));
    let left_out = workers.len().saturating_sub(SHOWN);
    workers.truncate(SHOWN);
    let mut running: HashMap<WorkerId, Vec<LeasedJob>> = HashMap::new();
    for job in operator.leased(None, EXAMINED).await? {
        running.entry(job.worker).or_default().push(job);
    }
    let workers = workers.into_iter().map(|worker| {
        let mut running = running.remove(&worker.id).unwrap_or_default();
        let more = running.len().saturating_sub(JOBS);
        running.truncate(JOBS);
        Working { slots: slots(&worker, &settings), worker, running, more }
    });
    render(&WorkersPage { shell, workers: workers.collect(), left_out })
}
