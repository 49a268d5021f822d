//! `queues list`: the queues that live workers serve, and those with settings.

use std::collections::BTreeMap;

use diesel_jobs_core::storage::{Pause, QueueSettings};
use diesel_jobs_storage::Database;
use serde::Serialize;

use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::super::output::{self, Align, Table};

#[derive(Default, Serialize)]
struct Listed {
    name: String,
    /// How many live workers serve it.
    workers: usize,
    /// How many of its jobs all of them run at once.
    total_slots: u64,
    /// What an operator has set for each worker.
    slots: Option<u32>,
    paused: Option<Pause>,
}

pub(super) async fn list(app: &App<'_>, database: &Database) -> Result<Exit, CliError> {
    let mut queues: BTreeMap<String, Listed> = BTreeMap::new();
    for QueueSettings { name, paused, slots } in database.operator.queues().await? {
        queues.insert(name.clone(), Listed { name, paused, slots, ..Listed::default() });
    }
    for worker in database.operator.workers().await?.iter().filter(|worker| worker.alive) {
        for name in &worker.queues {
            let queue =
                queues.entry(name.clone()).or_insert_with(|| Listed { name: name.clone(), ..Listed::default() });
            queue.workers += 1;
            // A worker of an earlier version does not say how many slots it has.
            let started_with = worker.slots.get(name).copied().unwrap_or_default();
            queue.total_slots += u64::from(queue.slots.unwrap_or(started_with));
        }
    }
    let queues: Vec<Listed> = queues.into_values().collect();
    output::print(app.json, &queues, || human(&queues))?;
    Ok(Exit::Fine)
}

fn human(queues: &[Listed]) -> String {
    if queues.is_empty() {
        return "no live worker serves a queue, and no queue has settings\n".to_owned();
    }
    let mut table = Table::new(&[
        ("QUEUE", Align::Left),
        ("WORKERS", Align::Right),
        ("SLOTS", Align::Right),
        ("SLOTS PER WORKER", Align::Left),
        ("PAUSED", Align::Left),
    ]);
    for queue in queues {
        table.row([
            queue.name.clone(),
            queue.workers.to_string(),
            queue.total_slots.to_string(),
            queue.slots.map_or_else(|| "as started".to_owned(), |slots| format!("{slots}, set")),
            queue.paused.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string),
        ]);
    }
    table.render()
}
