//! The queues: how much waits, who serves them, and what operators have set.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use diesel_jobs_core::history::WorkFilter;
use diesel_jobs_core::storage::{Pause, QueueSettings};
use diesel_jobs_core::{Depth, QueueStats, WorkerRecord};

use super::{Visit, render};
use crate::chart::Spark;
use crate::failure::Page;
use crate::format;
use crate::rights::Action;
use crate::sample::oldest_text;
use crate::shell::{Place, Shell};

/// So many queues have a picture of the last hour.
const SPARKS: usize = 30;
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
        let none = Depth { jobs: 0, is_exact: true };
        let queue = name.to_owned();
        let stats = QueueStats { queue, available: none, later: none, running: 0, oldest_wait_seconds: None };
        Self { stats, workers: 0, slots: 0, set: None, paused: None, spark: None }
    }
}

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage {
    shell: Shell,
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
    let shell = visit.shell(Place::Queues, "Queues").await?.live("/queues", &visit.query);
    let operator = visit.site.operator();
    let (stats, workers, settings) = (operator.stats().await?, operator.workers().await?, operator.queues().await?);
    let mut queues = join(stats.queues, settings, &workers);
    for queue in queues.iter_mut().take(SPARKS) {
        let filter = WorkFilter { queue: Some(queue.stats.queue.clone()), kind: None };
        let points = operator.series(HOUR, STEP, &filter).await?;
        #[expect(clippy::cast_precision_loss, reason = "a picture shows no more than three digits")]
        let a_minute = |number: u64, seconds: f64| number as f64 * 60.0 / seconds.max(1.0);
        let values: Vec<_> = points.iter().map(|point| Some(a_minute(point.work.completed, point.seconds))).collect();
        queue.spark = Some(Spark::new("Completed in the last hour", &values));
    }
    render(&QueuesPage { shell, queues })
}
