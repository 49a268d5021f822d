//! `drain`: one worker process empties a queue. The time runs from the start signal until the system's own tables show
//! that every job is done.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Bench, Collected, turns};
use crate::child::WorkerProcess;
use crate::database::Database;
use crate::handler::{Mode, Payload};
use crate::name::Name;
use crate::report::{Report, progress};
use crate::systems;

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.systems();
    let n = bench.args.n;
    let mut full = Vec::new();
    let mut rates = Collected::default();
    for system in &systems {
        if let Some(template) = rates.unless_failed(*system, fill(bench, *system, n).await)? {
            full.push((*system, template));
        }
    }
    for system in turns(&systems, bench.runs(3)) {
        let Some((_, template)) = full.iter().find(|(name, _)| *name == system) else { continue };
        let database = bench.server.copy(template).await?;
        let rate = drain(system, &database, n).await;
        bench.server.drop(database).await?;
        let Some(rate) = rates.unless_failed(system, rate)? else { continue };
        progress(&format!("drain {}: {rate:.0} jobs/s", system.text()));
        rates.add(system, rate);
    }
    for (_, template) in full {
        bench.server.drop(template).await?;
    }
    let figures = rates.figures(&systems);
    bench.print(&Report { measure: "drain", variant: "1 process".into(), unit: "jobs/s", n: Some(n), figures });
    Ok(())
}

/// Creates a database with this many waiting jobs, as a template for others.
pub(super) async fn fill(bench: &Bench<'_>, system: Name, n: usize) -> Result<Database> {
    /// Jobs per call of a bulk function.
    const CALL: usize = 50_000;
    let fill = async |url: &str| {
        let mut producer = systems::of(system).producer(url).await?;
        for done in (0..n).step_by(CALL) {
            producer.many(Payload::many(CALL.min(n - done))).await?;
        }
        Ok(())
    };
    bench.server.with_jobs(system, n, fill).await
}

async fn drain(system: Name, database: &Database, n: usize) -> Result<f64> {
    let mut worker = WorkerProcess::start(system, Mode::Count, &database.url).await?;
    let start = worker.go().await?;
    let all = worker.await_started(n as u64, LIMIT).await?;
    ensure!(all, "{} started {} of {n} jobs in {LIMIT:?}", system.text(), worker.started());
    ensure!(database.await_done(system, LIMIT).await?, "{} did not finish all jobs in {LIMIT:?}", system.text());
    let took = start.elapsed();
    let started = worker.started();
    ensure!(started == n as u64, "{} ran {started} handlers for {n} jobs", system.text());
    worker.kill().await?;
    if let Some(kept) = database.kept(system).await? {
        ensure!(kept == n as i64, "{} keeps {kept} finished jobs of {n}", system.text());
    }
    Ok(n as f64 / took.as_secs_f64())
}
