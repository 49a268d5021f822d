//! `steady`: two connections enqueue in bulk and keep about 10,000 jobs waiting, while one worker process drains. The
//! rate is that of started handlers. Afterwards the queue is drained, and every enqueued job must be done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Map, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Bench, Collected, turns};
use crate::child::WorkerProcess;
use crate::database::Database;
use crate::handler::{Mode, Payload};
use crate::name::Name;
use crate::report::{Report, progress};
use crate::system::Producer;
use crate::systems;

/// Jobs that wait: they are enqueued and have not started.
const WAITING: u64 = 10_000;
const PRODUCERS: usize = 2;
const BATCH: usize = 1_000;
const WARM_UP: Duration = Duration::from_secs(3);
/// How often the counters are read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(300);

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.systems();
    let seconds = bench.args.seconds.max(1);
    let mut rates = Collected::default();
    for system in turns(&systems, bench.runs(3)) {
        let database = bench.server.with_jobs(system, 0, async |_| Ok(())).await?;
        let flow = flow(system, &database, 1, Duration::from_secs(seconds)).await;
        bench.server.drop(database).await?;
        let Some(Flow { windows, waiting }) = rates.unless_failed(system, flow)? else { continue };
        let rate = windows[0];
        progress(&format!("steady {}: {rate:.0} jobs/s, {waiting:.0} waiting", system.text()));
        let notes = Map::from_iter([("waiting".to_owned(), json!(waiting.round()))]);
        rates.note(system, rate, notes);
    }
    let variant = format!("enqueueing and draining, {seconds} s");
    let figures = rates.figures(&systems);
    bench.print(&Report { measure: "steady", variant, unit: "jobs/s", n: None, figures });
    Ok(())
}

/// The results.
pub(super) struct Flow {
    /// Jobs per second in each window.
    pub(super) windows: Vec<f64>,
    /// The average number of waiting jobs. If it is small, enqueueing was the limit.
    pub(super) waiting: f64,
}

/// Enqueues and drains for this many windows.
pub(super) async fn flow(system: Name, database: &Database, windows: usize, window: Duration) -> Result<Flow> {
    let mut worker = WorkerProcess::start(system, Mode::Count, &database.url).await?;
    worker.go().await?;
    let enqueued = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..PRODUCERS {
        let producer = systems::of(system).producer(&database.url).await?;
        tasks.spawn(produce(producer, worker.counter(), Arc::clone(&enqueued), Arc::clone(&stop)));
    }
    tokio::time::sleep(WARM_UP).await;
    let mut flow = Flow { windows: Vec::new(), waiting: 0.0 };
    let mut looks = 0;
    for _ in 0..windows {
        let (from, start) = (worker.started(), Instant::now());
        while start.elapsed() < window {
            tokio::time::sleep(POLL_INTERVAL).await;
            looks += 1;
            flow.waiting += enqueued.load(Ordering::Relaxed).saturating_sub(worker.started()) as f64;
            if let Some(ended) = tasks.try_join_next() {
                ended??;
                bail!("a producer of {} ended early", system.text());
            }
        }
        flow.windows.push((worker.started() - from) as f64 / start.elapsed().as_secs_f64());
    }
    flow.waiting /= f64::from(looks);
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let all = enqueued.load(Ordering::Relaxed);
    ensure!(worker.await_started(all, LIMIT).await?, "{} did not start all {all} jobs", system.text());
    ensure!(database.await_done(system, LIMIT).await?, "{} did not finish all {all} jobs", system.text());
    ensure!(worker.started() == all, "{} ran {} handlers for {all} jobs", system.text(), worker.started());
    worker.kill().await?;
    Ok(flow)
}

async fn produce(
    mut producer: Box<dyn Producer>,
    started: watch::Receiver<u64>,
    enqueued: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let started = *started.borrow();
        if enqueued.load(Ordering::Relaxed).saturating_sub(started) >= WAITING {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        // Counted before they are enqueued, so that the other producer does not enqueue them too.
        enqueued.fetch_add(BATCH as u64, Ordering::Relaxed);
        producer.many(Payload::many(BATCH)).await?;
    }
    Ok(())
}
