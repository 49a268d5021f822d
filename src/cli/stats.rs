//! `stats`: the jobs of each queue and kind by state, what was done in the last minutes, and the workers.

use std::time::Duration;

use diesel_jobs_core::history::KindRate;
use diesel_jobs_core::storage::QueueSettings;
use diesel_jobs_core::{Counted, Freeze, Installation, KindStats, QueueStats, WorkerRecord};
use serde::Serialize;

use super::app::App;
use super::exit::{CliError, Exit};
use super::output::{self, Align, Table};
use super::pauses::{self, Paused};
use super::{database, duration};

/// The time that the rates are about.
const RATES: Duration = Duration::from_secs(5 * 60);

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    installation: Installation,
    queues: Vec<QueueStats>,
    kinds: Vec<KindStats>,
    counted: Counted,
    rates: Vec<KindRate>,
    workers: Vec<WorkerRecord>,
    paused: Vec<Paused>,
    #[serde(skip)]
    settings: Vec<QueueSettings>,
}

pub(super) async fn stats(app: &App<'_>) -> Result<Exit, CliError> {
    let database = database::open(app.chosen()?, database::NO_HANDLERS).await?;
    let installation = database.storage.check_schema().await?;
    let stats = database.operator.stats().await?;
    let report = Report {
        installation,
        queues: stats.queues,
        kinds: stats.kinds,
        counted: stats.counted,
        rates: database.operator.rates(RATES).await?,
        workers: database.operator.workers().await?,
        paused: pauses::all(&*database.operator).await?,
        settings: database.operator.queues().await?,
    };
    output::print(app.json, &report, || text(&report))?;
    Ok(Exit::Fine)
}

fn text(report: &Report) -> String {
    let Report { installation, queues, kinds, counted, rates: done, workers, paused, settings } = report;
    let mut parts = vec![jobs(kinds, queues, counted)];
    if !counted.now && !queues.is_empty() {
        parts.push(depths(queues));
    }
    if !done.is_empty() {
        parts.push(rates(done));
    }
    parts.push(listed(workers, settings));
    installation.frozen.as_ref().map(frozen).unwrap_or_default() + &pauses::text(paused) + &parts.join("\n")
}

/// Returns the notice that is printed above all other output while the database is frozen.
pub(super) fn frozen(freeze: &Freeze) -> String {
    output::printable(&format!("{freeze}; nothing is claimed until `worker thaw`")) + "\n\n"
}

fn jobs(kinds: &[KindStats], queues: &[QueueStats], counted: &Counted) -> String {
    let age = counted.age_seconds.and_then(wait);
    let when = match age {
        _ if counted.now => String::new(),
        Some(age) => {
            let resting = counted.resting.as_ref().map(|reason| format!("; not counted since: {reason}"));
            output::printable(&format!("counted {age} ago{}", resting.unwrap_or_default())) + "\n"
        }
        None => {
            "there are too many jobs to count them by kind now; a worker counts them within a few seconds of starting\n"
                .to_owned()
        }
    };
    if kinds.is_empty() {
        return if queues.is_empty() && counted.now { "no jobs\n".to_owned() } else { when };
    }
    let mut table = Table::new(&[
        ("QUEUE", Align::Left),
        ("KIND", Align::Left),
        ("AVAILABLE", Align::Right),
        ("SCHEDULED", Align::Right),
        ("RETRYING", Align::Right),
        ("HELD", Align::Right),
        ("RUNNING", Align::Right),
        ("COMPLETED", Align::Right),
        ("CANCELLED", Align::Right),
        ("DISCARDED", Align::Right),
        ("OLDEST WAITS", Align::Right),
    ]);
    for kind in kinds {
        table.row([
            kind.queue.clone(),
            kind.kind.clone(),
            kind.available.to_string(),
            kind.scheduled.to_string(),
            kind.retrying.to_string(),
            kind.held.to_string(),
            kind.running.to_string(),
            kind.completed.to_string(),
            kind.cancelled.to_string(),
            kind.discarded.to_string(),
            kind.oldest_wait_seconds.and_then(wait).unwrap_or_default(),
        ]);
    }
    when + &table.render()
}

/// The queues as they are now, if the kinds were counted some time ago.
fn depths(queues: &[QueueStats]) -> String {
    let mut table = Table::new(&[
        ("QUEUE NOW", Align::Left),
        ("AVAILABLE", Align::Right),
        ("HELD", Align::Right),
        ("LATER", Align::Right),
        ("RUNNING", Align::Right),
        ("OLDEST WAITS", Align::Right),
    ]);
    for queue in queues {
        table.row([
            queue.queue.clone(),
            queue.available.to_string(),
            queue.held.to_string(),
            queue.later.to_string(),
            queue.running.to_string(),
            queue.oldest_wait_seconds.and_then(wait).unwrap_or_default(),
        ]);
    }
    table.render()
}

/// What was done in the last minutes.
fn rates(rates: &[KindRate]) -> String {
    let mut table = Table::new(&[
        ("QUEUE, LAST 5 MIN", Align::Left),
        ("KIND", Align::Left),
        ("COMPLETED/MIN", Align::Right),
        ("FAILED", Align::Right),
        ("WAIT P50", Align::Right),
        ("WAIT P95", Align::Right),
        ("RUN P50", Align::Right),
        ("RUN P95", Align::Right),
    ]);
    for rate in rates {
        let quantiles = |quantiles: Option<diesel_jobs_core::history::Quantiles>| match quantiles {
            Some(quantiles) => [quantiles.p50, quantiles.p95].map(span),
            None => [String::new(), String::new()],
        };
        let ([wait_p50, wait_p95], [run_p50, run_p95]) = (quantiles(rate.work.wait), quantiles(rate.work.run));
        table.row([
            rate.queue.clone(),
            rate.kind.clone(),
            per_minute(rate.completed_per_minute()),
            rate.work.failed_share().map(percent).unwrap_or_default(),
            wait_p50,
            wait_p95,
            run_p50,
            run_p95,
        ]);
    }
    table.render()
}

/// A rate, with a decimal if it is small.
pub(super) fn per_minute(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// A share from 0 to 1 as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns the wait as text. `None` if the seconds are not a valid duration, such as a negative number.
pub(super) fn wait(seconds: f64) -> Option<String> {
    Duration::try_from_secs_f64(seconds).ok().map(duration::human)
}

/// A time span in words, with fractions of a millisecond left out.
pub(super) fn span(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 0.001 { "< 1 ms".to_owned() } else { wait(seconds).unwrap_or_default() }
}

fn listed(workers: &[WorkerRecord], settings: &[QueueSettings]) -> String {
    if workers.is_empty() {
        return "no workers\n".to_owned();
    }
    let mut table = Table::new(&[
        ("WORKER", Align::Left),
        ("HOST", Align::Left),
        ("PID", Align::Right),
        ("STATE", Align::Left),
        ("STARTED AT", Align::Left),
        ("HEARTBEAT AT", Align::Left),
        ("QUEUES", Align::Left),
    ]);
    for worker in workers {
        table.row([
            worker.id.to_string(),
            worker.host.clone(),
            worker.pid.to_string(),
            worker.state_text(),
            output::time(worker.started_at),
            output::time(worker.heartbeat_at),
            worker.queues_text(settings),
        ]);
    }
    table.render()
}
