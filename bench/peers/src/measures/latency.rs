//! `latency`: one job every 20 ms for an idle worker. The time runs from the moment when the client receives the answer
//! to the commit to the start of the handler. Both processes read the machine's clock. The handler may start before
//! that moment, so the time from the call is reported too.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::MissedTickBehavior;

use super::{Bench, Collected, turns};
use crate::child::WorkerProcess;
use crate::database::Database;
use crate::handler::{Mode, Payload, unix_nanos};
use crate::name::Name;
use crate::report::{Report, progress};
use crate::stats::percentile;
use crate::systems;

const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];
const JOBS: i64 = 550;
/// The first jobs run on cold connections. They do not count.
const WARM_UP: i64 = 50;
const EVERY: Duration = Duration::from_millis(20);
/// How long a worker needs until it listens and is idle.
const SETTLING: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.distinct();
    let mut found = PERCENTILES.map(|_| Collected::default());
    let mut called = Collected::default();
    for system in turns(&systems, bench.runs(3)) {
        let database = bench.server.with_jobs(system, 0, async |_| Ok(())).await?;
        let delays = delays(system, &database).await;
        bench.server.drop(database).await?;
        let Some(delays) = called.unless_failed(system, delays)? else { continue };
        let figures = PERCENTILES.map(|percent| percentile(&delays.committed, percent));
        called.add(system, percentile(&delays.called, 50.0));
        let [p50, p95, p99] = figures;
        progress(&format!("latency {}: p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms", system.text()));
        for (figure, found) in figures.iter().zip(&mut found) {
            found.add(system, *figure);
        }
    }
    let found = PERCENTILES.iter().zip(found).map(|(percent, found)| (format!("p{percent}, commit to start"), found));
    let n = usize::try_from(JOBS - WARM_UP).ok();
    for (variant, found) in found.chain([("p50, call of enqueue to start".to_owned(), called)]) {
        bench.print(&Report { measure: "latency", variant, unit: "ms", n, figures: found.figures(&systems) });
    }
    Ok(())
}

/// The delays of each job, in milliseconds.
#[derive(Default)]
struct Delays {
    /// From the answer to the commit to the start.
    committed: Vec<f64>,
    /// From the call of the enqueueing function to the start.
    called: Vec<f64>,
}

async fn delays(system: Name, database: &Database) -> Result<Delays> {
    let mut worker = WorkerProcess::start(system, Mode::Time, &database.url).await?;
    worker.go().await?;
    let mut producer = systems::of(system).producer(&database.url).await?;
    tokio::time::sleep(SETTLING).await;
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut enqueued = Vec::new();
    for id in 0..JOBS {
        ticks.tick().await;
        let called = unix_nanos();
        producer.one(Payload::new(id)).await?;
        enqueued.push((id, called, unix_nanos()));
    }
    ensure!(worker.await_started(JOBS as u64, LIMIT).await?, "{} did not start all jobs", system.text());
    ensure!(database.await_done(system, LIMIT).await?, "{} did not finish all jobs", system.text());
    let mut delays = Delays::default();
    {
        let started = worker.times();
        for (id, called, committed) in enqueued.into_iter().filter(|(id, ..)| *id >= WARM_UP) {
            let Some(started) = started.get(&id) else { anyhow::bail!("{} lost job {id}", system.text()) };
            // A handler may start before the client has received the answer to its commit.
            delays.committed.push((started - committed).max(0) as f64 / 1e6);
            delays.called.push((started - called).max(0) as f64 / 1e6);
        }
    }
    worker.kill().await?;
    Ok(delays)
}
