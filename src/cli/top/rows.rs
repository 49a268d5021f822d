//! The rows of each table, as text.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use diesel_jobs_core::history::{KindRate, Quantiles};
use diesel_jobs_core::storage::{Pause, QueueOverview, queue_overview};
use diesel_jobs_core::{KindStats, LeasedJob, QueueStats, WorkerRecord};

use super::pane::Pane;
use super::snapshot::Snapshot;
use crate::cli::output::printable;
use crate::cli::stats::{per_minute, percent, span};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Identifies it, even after the next reading.
    pub(super) name: String,
    pub(super) cells: Vec<String>,
    /// Whether it needs attention.
    pub(super) is_bad: bool,
    /// Whether it is a paused queue.
    pub(super) is_paused: bool,
    /// Its value in each order.
    keys: Vec<Key>,
}

/// Greater numbers come first, and smaller texts.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Number(f64),
    Text(String),
}

impl Row {
    fn new(name: String, cells: Vec<String>, keys: Vec<Key>) -> Self {
        let cells = cells.iter().map(|cell| printable(cell)).collect();
        Self { name, cells, is_bad: false, is_paused: false, keys }
    }
}

/// The orders of a table. The first one is the order at the start.
pub(super) fn orders(pane: Pane) -> &'static [&'static str] {
    match pane {
        Pane::Queues => &["due", "oldest", "done", "name"],
        Pane::Kinds => &["done", "waiting", "failed", "name"],
        Pane::Workers => &["running", "host"],
        Pane::Jobs => &["since", "kind"],
    }
}

/// The rows of a table, in this order.
pub(super) fn of(pane: Pane, snapshot: &Snapshot, order: usize) -> Vec<Row> {
    let mut rows = match pane {
        Pane::Queues => queues(snapshot),
        Pane::Kinds => kinds(snapshot),
        Pane::Workers => snapshot.workers.iter().map(|worker| self::worker(worker, snapshot)).collect(),
        Pane::Jobs => snapshot.jobs.iter().map(|job| self::job(job, snapshot)).collect(),
    };
    rows.sort_by(|one: &Row, other: &Row| {
        let by_key = match (one.keys.get(order), other.keys.get(order)) {
            (Some(Key::Number(one)), Some(Key::Number(other))) => other.total_cmp(one),
            (Some(Key::Text(one)), Some(Key::Text(other))) => one.cmp(other),
            _ => Ordering::Equal,
        };
        by_key.then_with(|| one.name.cmp(&other.name))
    });
    rows
}

/// The pause with its age in place of its time, because the table has little room.
fn pause(pause: &Pause) -> String {
    let age = |at: DateTime<Utc>| span((Utc::now() - at).as_seconds_f64().max(0.0));
    let mut text = "paused".to_owned();
    if let Some(at) = pause.at {
        text.push_str(&format!(" for {}", age(at)));
    }
    if let Some(by) = &pause.by {
        text.push_str(&format!(" by {by}"));
    }
    if let Some(reason) = &pause.reason {
        text.push_str(&format!(": {reason}"));
    }
    text
}

/// What was done per minute, and how much of it failed.
fn done(rate: Option<&KindRate>) -> [String; 2] {
    match rate {
        Some(rate) => {
            [per_minute(rate.completed_per_minute()), rate.work.failed_share().map(percent).unwrap_or_default()]
        }
        None => [String::new(), String::new()],
    }
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map(span).unwrap_or_default()
}

fn queues(snapshot: &Snapshot) -> Vec<Row> {
    let Snapshot { stats, settings, workers, .. } = snapshot;
    let mut jobs: BTreeMap<&str, QueueStats> =
        stats.queues.iter().map(|queue| (queue.queue.as_str(), queue.clone())).collect();
    // Those in which something was done, too.
    for rate in &snapshot.rates {
        jobs.entry(&rate.queue).or_insert_with(|| QueueStats::empty(&rate.queue));
    }
    let queues = queue_overview(jobs.into_values().collect(), settings.clone(), workers);
    queues.into_iter().map(|queue| self::queue(queue, snapshot)).collect()
}

fn queue(queue: QueueOverview, snapshot: &Snapshot) -> Row {
    let stats = &queue.jobs;
    let rates = || snapshot.rates.iter().filter(|rate| rate.queue == stats.queue);
    let per = |number: f64| rates().next().map_or(0.0, |rate| number * 60.0 / rate.seconds.max(1.0));
    let completed: u64 = rates().map(|rate| rate.work.completed).sum();
    let failed: u64 = rates().map(|rate| rate.work.retried + rate.work.discarded).sum();
    let share = (completed + failed > 0).then(|| failed as f64 / (completed + failed) as f64);
    let p95 = rates().filter_map(|rate| rate.work.wait).map(|wait| wait.p95).reduce(f64::max);
    let note = match &queue.paused {
        Some(paused) => pause(paused),
        None if queue.is_neglected() => format!("served by {}", queue.served_by()),
        None => String::new(),
    };
    let waiting = stats.available.jobs as f64;
    let keys = vec![
        Key::Number(waiting),
        Key::Number(stats.oldest_wait_seconds.unwrap_or(-1.0)),
        Key::Number(completed as f64),
        Key::Text(stats.queue.clone()),
    ];
    let cells = vec![
        stats.queue.clone(),
        stats.available.to_string(),
        stats.held.to_string(),
        stats.later.to_string(),
        stats.running.to_string(),
        queue.total_slots.to_string(),
        seconds(stats.oldest_wait_seconds),
        if completed + failed > 0 { per_minute(per(completed as f64)) } else { String::new() },
        share.map(percent).unwrap_or_default(),
        p95.map(|p95| format!("<= {}", span(p95))).unwrap_or_default(),
        note,
    ];
    let is_paused = queue.paused.is_some();
    Row { is_bad: is_paused || queue.is_neglected(), is_paused, ..Row::new(queue.name, cells, keys) }
}

/// How many jobs of a kind there are, and what was done with them.
type Numbers<'a> = (Option<&'a KindStats>, Option<&'a KindRate>);

fn kinds(snapshot: &Snapshot) -> Vec<Row> {
    let mut kinds: BTreeMap<(&str, &str), Numbers<'_>> = BTreeMap::new();
    for stats in &snapshot.stats.kinds {
        kinds.entry((&stats.kind, &stats.queue)).or_default().0 = Some(stats);
    }
    for rate in &snapshot.rates {
        kinds.entry((&rate.kind, &rate.queue)).or_default().1 = Some(rate);
    }
    let row = |((kind, queue), (stats, rate)): ((&str, &str), Numbers<'_>)| {
        let waiting = stats.map(|stats| stats.available + stats.scheduled + stats.retrying + stats.held);
        let share = rate.and_then(|rate| rate.work.failed_share());
        let completed = rate.map_or(0.0, KindRate::completed_per_minute);
        let [per_minute, failed] = done(rate);
        let wait = rate.and_then(|rate| rate.work.wait);
        let run = rate.and_then(|rate| rate.work.run);
        let half = |quantiles: Option<Quantiles>| seconds(quantiles.map(|quantiles| quantiles.p50));
        let most = |quantiles: Option<Quantiles>| seconds(quantiles.map(|quantiles| quantiles.p95));
        let waits = waiting.map(|waiting| waiting.to_string()).unwrap_or_default();
        let cells = vec![
            kind.to_owned(),
            queue.to_owned(),
            waits,
            per_minute,
            failed,
            half(wait),
            most(wait),
            half(run),
            most(run),
        ];
        let keys = vec![
            Key::Number(completed),
            Key::Number(waiting.unwrap_or_default() as f64),
            Key::Number(share.unwrap_or_default()),
            Key::Text(kind.to_owned()),
        ];
        Row { is_bad: share.is_some_and(|share| share >= 0.5), ..Row::new(format!("{kind}\0{queue}"), cells, keys) }
    };
    kinds.into_iter().map(row).collect()
}

fn worker(worker: &WorkerRecord, snapshot: &Snapshot) -> Row {
    let running = snapshot.jobs.iter().filter(|job| job.worker == worker.id).count();
    let age = (worker.heartbeat_at - worker.started_at).as_seconds_f64();
    let state = match worker.claims() {
        true => format!("alive, up {}", span(age)),
        false => worker.state_text(),
    };
    let cells = vec![
        short(worker.id.0),
        worker.host.clone(),
        worker.pid.to_string(),
        running.to_string(),
        state,
        worker.version.clone().unwrap_or_default(),
        worker.queues_text(&snapshot.settings),
    ];
    let keys = vec![Key::Number(running as f64), Key::Text(worker.host.clone())];
    Row { is_bad: !worker.alive, ..Row::new(worker.id.to_string(), cells, keys) }
}

fn job(job: &LeasedJob, snapshot: &Snapshot) -> Row {
    let host = snapshot.workers.iter().find(|worker| worker.id == job.worker);
    let worker = host.map_or_else(|| short(job.worker.0), |worker| format!("{} on {}", worker.pid, worker.host));
    let seconds = job.seconds + snapshot.at.elapsed().as_secs_f64();
    let cells =
        vec![job.id.to_string(), job.kind.clone(), job.queue.clone(), job.attempt.to_string(), span(seconds), worker];
    let is_bad = host.is_some_and(|worker| !worker.alive);
    Row { is_bad, ..Row::new(job.id.to_string(), cells, vec![Key::Number(job.seconds), Key::Text(job.kind.clone())]) }
}

/// The end of an id. Its beginning is the time, which is alike for workers that start together.
fn short(id: impl ToString) -> String {
    let id = id.to_string();
    id.get(id.len().saturating_sub(8)..).unwrap_or_default().to_owned()
}
