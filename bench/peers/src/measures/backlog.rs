//! `backlog`: how fast one worker process drains the first 30,000 jobs when a million wait.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, Collected, drain, turns};
use crate::child::WorkerProcess;
use crate::handler::Mode;
use crate::name::Name;
use crate::report::{Report, progress};

/// After this time, the jobs drained so far determine the rate.
const LIMIT: Duration = Duration::from_secs(15);

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.systems();
    let waiting = bench.args.n * 10;
    let first = (waiting / 100 * 3).max(1);
    let mut full = Vec::new();
    let mut rates = Collected::default();
    for system in &systems {
        progress(&format!("backlog: filling the queue of {}", system.text()));
        if let Some(template) = rates.unless_failed(*system, drain::fill(bench, *system, waiting).await)? {
            full.push((*system, template));
        }
    }
    for system in turns(&systems, bench.runs(3)) {
        let Some((_, template)) = full.iter().find(|(name, _)| *name == system) else { continue };
        let database = bench.server.copy(template).await?;
        let rate = rate(system, &database.url, first).await;
        bench.server.drop(database).await?;
        let Some(rate) = rates.unless_failed(system, rate)? else { continue };
        progress(&format!("backlog {}: {rate:.0} jobs/s", system.text()));
        rates.add(system, rate);
    }
    for (_, template) in full {
        bench.server.drop(template).await?;
    }
    let variant = format!("first {first} of {waiting} waiting");
    let figures = rates.figures(&systems);
    bench.print(&Report { measure: "backlog", variant, unit: "jobs/s", n: Some(waiting), figures });
    Ok(())
}

async fn rate(system: Name, url: &str, first: usize) -> Result<f64> {
    let mut worker = WorkerProcess::start(system, Mode::Count, url).await?;
    let start = worker.go().await?;
    worker.await_started(first as u64, LIMIT).await?;
    let rate = worker.started() as f64 / start.elapsed().as_secs_f64();
    worker.kill().await?;
    Ok(rate)
}
