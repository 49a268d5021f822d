//! `stats`: counts the jobs of each queue and kind by state, and lists the workers.

use std::time::Duration;

use diesel_jobs_core::{Freeze, Installation, KindStats, WorkerRecord};
use serde::Serialize;

use super::app::App;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};
use super::{database, duration};

#[derive(Serialize)]
struct Stats {
    #[serde(flatten)]
    installation: Installation,
    kinds: Vec<KindStats>,
    workers: Vec<WorkerRecord>,
}

pub(super) async fn stats(app: &App<'_>) -> Result<Exit, CliError> {
    let database = database::open(app.url()?, database::NO_HANDLERS).await?;
    let stats = Stats {
        installation: database.storage.check_schema().await?,
        kinds: database.operator.stats().await?,
        workers: database.operator.workers().await?,
    };
    output::print(app.json, &stats, || {
        let frozen = stats.installation.frozen.as_ref().map(frozen).unwrap_or_default();
        format!("{frozen}{}\n{}", kinds(&stats.kinds), workers(&stats.workers))
    })?;
    Ok(Exit::Fine)
}

/// Returns the notice that is printed above all other output while the database is frozen.
pub(super) fn frozen(freeze: &Freeze) -> String {
    output::printable(&format!("{freeze}; nothing is claimed until `worker thaw`")) + "\n\n"
}

fn kinds(stats: &[KindStats]) -> String {
    if stats.is_empty() {
        return "no jobs\n".to_owned();
    }
    let mut table = Table::new(&[
        ("QUEUE", Align::Left),
        ("KIND", Align::Left),
        ("AVAILABLE", Align::Right),
        ("SCHEDULED", Align::Right),
        ("RETRYING", Align::Right),
        ("RUNNING", Align::Right),
        ("COMPLETED", Align::Right),
        ("CANCELLED", Align::Right),
        ("DISCARDED", Align::Right),
        ("OLDEST WAITS", Align::Right),
    ]);
    for kind in stats {
        table.row([
            kind.queue.clone(),
            kind.kind.clone(),
            kind.available.to_string(),
            kind.scheduled.to_string(),
            kind.retrying.to_string(),
            kind.running.to_string(),
            kind.completed.to_string(),
            kind.cancelled.to_string(),
            kind.discarded.to_string(),
            kind.oldest_wait_seconds.and_then(wait).unwrap_or_default(),
        ]);
    }
    table.render()
}

/// Returns the wait as text. `None` if the seconds are not a valid duration, such as a negative number.
pub(super) fn wait(seconds: f64) -> Option<String> {
    Duration::try_from_secs_f64(seconds).ok().map(duration::human)
}

fn workers(workers: &[WorkerRecord]) -> String {
    if workers.is_empty() {
        return "no workers\n".to_owned();
    }
    let mut table = Table::new(&[
        ("WORKER", Align::Left),
        ("HOST", Align::Left),
        ("PID", Align::Right),
        ("ALIVE", Align::Left),
        ("STARTED AT", Align::Left),
        ("HEARTBEAT AT", Align::Left),
        ("QUEUES", Align::Left),
    ]);
    for worker in workers {
        table.row([
            worker.id.to_string(),
            worker.host.clone(),
            worker.pid.to_string(),
            if worker.alive { "yes" } else { "no" }.to_owned(),
            output::time(worker.started_at),
            output::time(worker.heartbeat_at),
            worker.queues.join(","),
        ]);
    }
    table.render()
}
