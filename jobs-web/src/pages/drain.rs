//! A queue that is being emptied of running jobs: how many still run.

use askama::Template;
use diesel_jobs_core::storage::{NO_WORKER_ENDS_JOBS, Pause};
use diesel_jobs_core::{LeasedJob, WorkerRecord};

use super::{Visit, render};
use crate::failure::{Failure, Page};
use crate::format::{self, sentence};
use crate::rights::Action;
use crate::shell::{Place, Shell};

/// How many running jobs are shown.
const SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "drain.html")]
struct DrainPage {
    shell: Shell,
    name: String,
    paused: Option<Pause>,
    running: i64,
    /// How many workers are alive.
    alive: usize,
    jobs: Vec<Job>,
}

/// A job that a worker has claimed, its worker, and whether that one is alive.
struct Job {
    leased: LeasedJob,
    worker: String,
    has_live_worker: bool,
}

pub(crate) async fn drain(visit: Visit) -> Page {
    let name = match visit.pairs().as_slice() {
        [(field, name)] if field == "queue" && !name.is_empty() => name.clone(),
        _ => return Err(Failure::Malformed("Write ?queue=mail, with the name of a queue.".to_owned())),
    };
    let shell = visit.shell(Place::Queues, &format!("Drain {name}")).await?.live("/queues/drain", &visit.query);
    let operator = visit.site.operator();
    let settings = operator.queues().await?.into_iter().find(|queue| queue.name == name);
    let running = i64::try_from(operator.running_in(&name).await?).unwrap_or(i64::MAX);
    let leased = if running > 0 { operator.leased(Some(&name), SHOWN).await? } else { Vec::new() };
    let workers = operator.workers().await?;
    let jobs = leased.into_iter().map(|leased| {
        let known = workers.iter().find(|worker| worker.id == leased.worker);
        let worker = known.map_or_else(|| format!("worker {}", leased.worker), WorkerRecord::process);
        Job { worker, has_live_worker: known.is_some_and(|worker| worker.alive), leased }
    });
    let alive = workers.iter().filter(|worker| worker.alive).count();
    let (paused, jobs) = (settings.and_then(|settings| settings.paused), jobs.collect());
    render(&DrainPage { shell, name, paused, running, alive, jobs })
}
