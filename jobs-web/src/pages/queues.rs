//! The queues: how much waits, who serves them, and what operators have set.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use diesel_jobs_core::storage::{Pause, QueueSettings};
use diesel_jobs_core::{QueueStats, WorkerRecord};

use super::{Visit, render};
use crate::chart::Spark;
use crate::failure::Page;
use crate::format;
use crate::names::Names;
use crate::rights::Action;
use crate::sample::oldest_text;
use crate::shell::{Place, Shell};

const HOUR: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_secs(120);

/// A queue.
struct Queue {
    stats: QueueStats,
    workers: usize,
    /// The slots of all live workers together.
    slots: u32,
    /// What an operator has set for each worker.
    set: Option<u32>,
    paused: Option<Pause>,
    spark: Option<Spark>,
}

impl Queue {
    fn new(name: &str) -> Self {
        Self { stats: QueueStats::empty(name), workers: 0, slots: 0, set: None, paused: None, spark: None }
    }
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    shell: Shell,
    names: Names,
    here: String,
    queues: Vec<Queue>,
}

/// Puts together what is known of each queue.
fn join(stats: Vec<QueueStats>, settings: Vec<QueueSettings>, workers: &[WorkerRecord]) -> Vec<Queue> {
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for stats in stats {
        let mut queue = Queue::new(&stats.queue);
        let name = stats.queue.clone();
        queue.stats = stats;
        queues.insert(name, queue);
    }
    let set: BTreeMap<&str, Option<u32>> = settings.iter().map(|queue| (queue.name.as_str(), queue.slots)).collect();
    for worker in workers.iter().filter(|worker| worker.alive) {
        for name in &worker.queues {
            let queue = queues.entry(name.clone()).or_insert_with(|| Queue::new(name));
            queue.workers += 1;
            let own = worker.slots.get(name).copied().unwrap_or_default();
            queue.slots += set.get(name.as_str()).copied().flatten().unwrap_or(own);
        }
    }
    for setting in settings {
        let queue = queues.entry(setting.name.clone()).or_insert_with(|| Queue::new(&setting.name));
        (queue.set, queue.paused) = (setting.slots, setting.paused);
    }
    queues.into_values().collect()
}

pub(crate) async fn queues(visit: Visit) -> Page {
    let mut names = Names::read(&visit.pairs())?;
    let shell = visit.shell(Place::Queues, "Queues").await?.live("/queues", &visit.query);
    let operator = visit.site.operator();
    let (stats, workers, settings) = (operator.stats().await?, operator.workers().await?, operator.queues().await?);
    let mut queues = join(stats.queues, settings, &workers);
    names.choose(&mut queues, |queue| &queue.stats.queue);
    let shown: Vec<String> = queues.iter().map(|queue| queue.stats.queue.clone()).collect();
    for rates in operator.queue_rates(&shown, HOUR, STEP).await? {
        let values: Vec<_> = rates.completed_per_minute.into_iter().map(Some).collect();
        // Both are in the order of the names.
        if let Ok(at) = queues.binary_search_by(|queue| queue.stats.queue.cmp(&rates.queue)) {
            queues[at].spark = Some(Spark::new("Completed in the last hour", &values));
        }
    }
    let here = shell.link("/queues");
    render(&QueuesPage { shell, names, here, queues })
}
