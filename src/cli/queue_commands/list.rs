//! `queues list`: the queues that have jobs, a setting, a pause or a live worker.

use diesel_jobs_core::shell::{argument, serving};
use diesel_jobs_core::storage::QueueOverview;
use diesel_jobs_storage::Database;

use super::super::app::App;
use super::super::exit::{CliError, Exit};
use super::super::output::{self, Align, Table};

pub(super) async fn list(app: &App<'_>, database: &Database) -> Result<Exit, CliError> {
    let queues = database.operator.queue_overview().await?;
    output::print(app.json, &queues, || human(&queues))?;
    Ok(Exit::Fine)
}

fn human(queues: &[QueueOverview]) -> String {
    if queues.is_empty() {
        return "no queue has jobs or settings, and no live worker serves one\n".to_owned();
    }
    let mut table = Table::new(&[
        ("QUEUE", Align::Left),
        ("AVAILABLE", Align::Right),
        ("HELD", Align::Right),
        ("LATER", Align::Right),
        ("RUNNING", Align::Right),
        ("SLOTS", Align::Right),
        ("SLOTS PER WORKER", Align::Left),
        ("SERVED BY", Align::Left),
        ("PAUSED", Align::Left),
    ]);
    for queue in queues {
        table.row([
            queue.name.clone(),
            queue.jobs.available.to_string(),
            queue.jobs.held.to_string(),
            queue.jobs.later.to_string(),
            queue.jobs.running.to_string(),
            queue.total_slots.to_string(),
            queue.slots.map_or_else(|| "as started".to_owned(), |slots| format!("{slots}, set")),
            queue.served_by(),
            queue.paused.as_ref().map_or_else(|| "no".to_owned(), ToString::to_string),
        ]);
    }
    table.render() + &queues.iter().filter_map(advice).collect::<String>()
}

/// What to do about a queue whose jobs no worker runs.
fn advice(queue: &QueueOverview) -> Option<String> {
    let name = &queue.name;
    let text = if queue.is_neglected() {
        format!("jobs wait in queue `{name}`, and no worker claims them: `worker run {}`", serving(name))
    } else if queue.slots == Some(0) && queue.jobs.waiting().jobs > 0 {
        format!(
            "queue `{name}` has no slots, so its jobs do not start: `worker queues slots {} default`",
            argument(name)
        )
    } else {
        return None;
    };
    Some(output::printable(&text) + "\n")
}
