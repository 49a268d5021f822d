//! `latency`: one job each 20 ms for an idle worker, from the moment its commit is known to the client to the start of its
//! handler. Both processes read the machine's clock.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::MissedTickBehavior;

use super::{Bench, Collected, turns};
use crate::child::WorkerProcess;
use crate::database::Database;
use crate::handler::{Mode, Payload, unix_nanos};
use crate::report::{Report, progress};
use crate::stats::percentile;
use crate::system::Name;

const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];
const JOBS: i64 = 550;
/// The first ones, on cold connections, do not count.
const WARM_UP: i64 = 50;
const EVERY: Duration = Duration::from_millis(20);
/// Until the worker listens and sleeps.
const SETTLING: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.distinct();
    let mut found = PERCENTILES.map(|_| Collected::default());
    for system in turns(&systems, bench.runs(3)) {
        let database = bench.server.with_jobs(system, 0, async |_| Ok(())).await?;
        let delays = delays(system, &database).await?;
        let figures = PERCENTILES.map(|percent| percentile(&delays, percent));
        let [p50, p95, p99] = figures;
        progress(&format!("latency {}: p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms", system.text()));
        for (figure, found) in figures.iter().zip(&mut found) {
            found.add(system, *figure);
        }
        bench.server.drop(database).await?;
    }
    for (percent, found) in PERCENTILES.iter().zip(found) {
        let (variant, n) = (format!("p{percent}, one job each 20 ms"), usize::try_from(JOBS - WARM_UP).ok());
        bench.print(&Report { measure: "latency", variant, unit: "ms", n, figures: found.figures(&systems) });
    }
    Ok(())
}

/// Commit to start of each job, in milliseconds.
async fn delays(system: Name, database: &Database) -> Result<Vec<f64>> {
    let mut worker = WorkerProcess::start(system, Mode::Time, &database.url).await?;
    worker.go().await?;
    let mut producer = system.system().producer(&database.url).await?;
    tokio::time::sleep(SETTLING).await;
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut committed = Vec::new();
    for id in 0..JOBS {
        ticks.tick().await;
        producer.one(Payload::new(id)).await?;
        committed.push((id, unix_nanos()));
    }
    ensure!(worker.await_started(JOBS as u64, LIMIT).await?, "{} did not start all jobs", system.text());
    ensure!(database.await_done(system, LIMIT).await?, "{} did not finish all jobs", system.text());
    let mut delays = Vec::new();
    {
        let started = worker.times();
        for (id, committed) in committed.into_iter().filter(|(id, _)| *id >= WARM_UP) {
            let Some(started) = started.get(&id) else { anyhow::bail!("{} lost job {id}", system.text()) };
            // A handler may start before the client has read the answer to its commit.
            delays.push((started - committed).max(0) as f64 / 1e6);
        }
    }
    worker.kill().await?;
    Ok(delays)
}
