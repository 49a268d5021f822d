//! The workers: what each runs now, and since when.

use askama::Template;
use diesel_jobs_core::WorkerRecord;
use diesel_jobs_core::storage::{RunningJob, RuntimeSettings};

use super::{Visit, render};
use crate::failure::Page;
use crate::format;
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// So many running jobs of a worker are shown.
const SHOWN: usize = 8;

/// A worker, and what it runs.
struct Working {
    worker: WorkerRecord,
    running: Vec<RunningJob>,
    /// How many more jobs it runs.
    more: usize,
}

impl Working {
    /// The queues with their slots.
    fn slots(&self) -> Vec<(&str, Option<u32>)> {
        let slots = |queue: &String| self.worker.slots.get(queue).copied();
        self.worker.queues.iter().map(|queue| (queue.as_str(), slots(queue))).collect()
    }
}

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    shell: Shell,
    workers: Vec<Working>,
}

pub(crate) async fn workers(visit: Visit) -> Page {
    let shell = visit.shell(Place::Workers, "Workers").await?.live("/workers", &visit.query);
    let operator = visit.site.operator();
    let mut workers = Vec::new();
    for worker in operator.workers().await? {
        let mut running = RuntimeSettings::running(operator, worker.id).await?;
        let more = running.len().saturating_sub(SHOWN);
        running.truncate(SHOWN);
        workers.push(Working { worker, running, more });
    }
    render(&WorkersPage { shell, workers })
}
