//! `enqueue`: one job per transaction, through each system's own function, on 1, 8 and 16 connections. The worker is
//! busy: all its handlers hang, so that neither claims nor idle workers affect the figures. The systems take short
//! turns, because a disk's speed changes within seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tokio::task::JoinSet;

use super::{Bench, Collected, turns};
use crate::child::WorkerProcess;
use crate::database::Database;
use crate::handler::{Mode, Payload};
use crate::name::Name;
use crate::report::{Report, progress};
use crate::system::Producer;
use crate::systems;

const CONNECTIONS: [usize; 3] = [1, 8, 16];
/// More than any worker can take, so that some jobs wait.
const HANGING: usize = 20_000;
const WINDOW: Duration = Duration::from_secs(1);
/// Windows of each system per number of connections and run.
const WINDOWS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(200);
/// A worker that has started no handler for this long has taken all the jobs it can.
const CALM: Duration = Duration::from_secs(1);
/// A system that takes longer to fill its worker, or to answer the last calls of a window, is left out. So a system
/// that never answers does not stop the round.
const LIMIT: Duration = Duration::from_secs(120);

/// A system whose worker is busy.
struct Busy {
    system: Name,
    worker: WorkerProcess,
    database: Database,
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<()> {
    let systems = bench.distinct();
    let mut rates = CONNECTIONS.map(|_| Collected::default());
    for _ in 0..bench.runs(3) {
        let mut busy = Vec::new();
        for system in &systems {
            if let Some(occupied) =
                rates[0].unless_failed(*system, within_limit(*system, occupy(bench, *system)).await)?
            {
                busy.push(occupied);
            }
        }
        for (connections, rates) in CONNECTIONS.iter().zip(&mut rates) {
            let mut seen = Collected::default();
            for system in turns(&systems, WINDOWS) {
                let Some(Busy { database, .. }) = busy.iter().find(|busy| busy.system == system) else { continue };
                let rate = within_limit(system, window(system, *connections, &database.url)).await;
                if let Some(rate) = rates.unless_failed(system, rate)? {
                    seen.add(system, rate);
                }
            }
            for figures in seen.figures(&systems).iter().filter(|figures| !figures.runs.is_empty()) {
                let rate = figures.runs.iter().sum::<f64>() / figures.runs.len() as f64;
                progress(&format!("enqueue {}, {connections} connections: {rate:.0} jobs/s", figures.system.text()));
                rates.add(figures.system, rate);
            }
        }
        // All workers end before the first drop. A drop waits until each backend of the server has answered a signal. A
        // backend does not answer while it writes to a worker that no longer reads.
        let mut databases = Vec::new();
        for Busy { worker, database, .. } in busy {
            worker.kill().await?;
            databases.push(database);
        }
        for database in databases {
            bench.server.drop(database).await?;
        }
    }
    for (connections, rates) in CONNECTIONS.iter().zip(rates) {
        let variant = format!("{connections} connection{}, workers busy", if *connections == 1 { "" } else { "s" });
        bench.print(&Report { measure: "enqueue", variant, unit: "jobs/s", n: None, figures: rates.figures(&systems) });
    }
    Ok(())
}

async fn within_limit<T>(system: Name, step: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| anyhow!("{} did not answer within {} s", system.text(), LIMIT.as_secs());
    tokio::time::timeout(LIMIT, step).await.map_err(late)?
}

async fn occupy(bench: &Bench<'_>, system: Name) -> Result<Busy> {
    let fill = async |url: &str| systems::of(system).producer(url).await?.many(Payload::many(HANGING)).await;
    let database = bench.server.with_jobs(system, HANGING, fill).await?;
    let mut worker = WorkerProcess::start(system, Mode::Hang, &database.url).await?;
    worker.go().await?;
    worker.await_calm(CALM).await?;
    Ok(Busy { system, worker, database })
}

async fn window(system: Name, connections: usize, url: &str) -> Result<f64> {
    let mut producers = Vec::new();
    for _ in 0..connections {
        producers.push(systems::of(system).producer(url).await?);
    }
    let counting = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for producer in producers {
        tasks.spawn(enqueue(producer, Arc::clone(&counting), Arc::clone(&stop)));
    }
    tokio::time::sleep(WARM_UP).await;
    counting.store(true, Ordering::Relaxed);
    let start = Instant::now();
    tokio::time::sleep(WINDOW).await;
    counting.store(false, Ordering::Relaxed);
    let took = start.elapsed();
    stop.store(true, Ordering::Relaxed);
    let mut enqueued = 0;
    while let Some(done) = tasks.join_next().await {
        enqueued += done??;
    }
    Ok(enqueued as f64 / took.as_secs_f64())
}

/// Enqueues until `stop`. Returns how many jobs were committed within the window.
async fn enqueue(mut producer: Box<dyn Producer>, counting: Arc<AtomicBool>, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut counted = 0;
    while !stop.load(Ordering::Relaxed) {
        producer.one(Payload::new(1)).await?;
        counted += u64::from(counting.load(Ordering::Relaxed));
    }
    Ok(counted)
}
