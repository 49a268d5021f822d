//! The producers of the test: connections that enqueue as fast as they can, and one that enqueues probes at intervals.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{IntoNewJob as _, NewJob, StorageError};
use diesel_jobs_storage::bench::{LoadTestDatabase, Producer};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::fleet::Team;
use super::line::now;
use super::load::{Noop, Probe};
use super::shape::Shape;
use super::step::Load;
use crate::cli::exit::CliError;

/// The time between two probes. It is short enough to give percentiles and long enough to cause no load.
const PROBE: Duration = Duration::from_millis(20);

/// How long the connections may take to end.
const STOP: Duration = Duration::from_secs(3);

/// How long probes may still be picked up after the step. After that they are counted with their wait so far.
const STRAGGLERS: Duration = Duration::from_millis(500);

/// How many jobs are kept waiting for the workers: a base, and an addition per process.
const WORK: (u64, u64) = (5_000, 1_000);

pub(super) struct Traffic {
    tasks: JoinSet<StorageResult<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    enqueued: AtomicU64,
    /// When each probe was committed. The index is the number of the probe.
    probes: Mutex<Vec<Duration>>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Traffic {
    /// Opens the connections and starts to enqueue.
    pub(super) async fn start(
        database: &dyn LoadTestDatabase,
        load: Load,
        shape: Shape,
        team: &Team,
    ) -> StorageResult<Self> {
        let shared = Arc::<Shared>::default();
        let mut producers = Vec::with_capacity(load.connections);
        for _ in 0..load.connections {
            producers.push(database.producer().await?);
        }
        let prober = database.producer().await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(probe(prober, shared.clone()));
        for producer in producers {
            let keep = load.keeps_work.then(|| shape.at_most(WORK.0 + WORK.1 * load.processes as u64));
            tasks.spawn(produce(producer, shape, load.batch, keep, team.counter(), shared.clone()));
        }
        Ok(Self { tasks, shared })
    }

    pub(super) fn enqueued(&self) -> u64 {
        self.shared.enqueued.load(Ordering::Relaxed)
    }

    /// Returns when a connection failed. The tasks end only then, or after [`stop`](Self::stop).
    pub(super) async fn failed(&mut self) -> CliError {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error.into(),
                Err(error) => return CliError::failed(format!("a task of the load test ended early: {error}")),
            }
        }
        CliError::failed("the load ended by itself")
    }

    /// Ends the connections. Each completes its current statement first.
    pub(super) async fn stop(&mut self) -> Result<(), CliError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                if let Ok(Err(error)) = ended {
                    return Err(CliError::from(error));
                }
            }
            Ok(())
        };
        // A task that has not ended by then is aborted when this value is dropped.
        tokio::time::timeout(STOP, ended).await.unwrap_or(Ok(()))
    }

    /// Returns how long the probes that were committed from `from` until `to` have waited. A probe that was not picked
    /// up counts with its wait until now.
    pub(super) async fn waits(&self, team: &Team, from: Duration, to: Duration) -> Vec<Duration> {
        let begun = Instant::now();
        let probes = self.shared.probes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        while team.picks().len() < probes.len() && begun.elapsed() < STRAGGLERS {
            sleep(Duration::from_millis(10)).await;
        }
        let mut picked = vec![now(); probes.len()];
        for (number, at) in team.picks() {
            if let Some(place) = picked.get_mut(number) {
                *place = at;
            }
        }
        let during = probes.iter().zip(picked).filter(|(committed, _)| (from..to).contains(*committed));
        // A handler may begin before the producer has received the answer to its commit.
        during.map(|(committed, picked)| picked.saturating_sub(*committed)).collect()
    }
}

async fn produce(
    mut producer: Box<dyn Producer>,
    shape: Shape,
    batch: usize,
    keep: Option<u64>,
    done: impl Fn() -> u64 + Send,
    shared: Arc<Shared>,
) -> StorageResult<()> {
    let mut numbers = 0..;
    let mut next = || job(Noop::new(numbers.next().unwrap_or_default(), &shape));
    while !shared.stopped() {
        if keep.is_some_and(|keep| shared.enqueued.load(Ordering::Relaxed) > done() + keep) {
            sleep(Duration::from_millis(1)).await;
            continue;
        }
        if batch == 1 {
            producer.enqueue(next()?).await?;
        } else {
            let jobs: StorageResult<Vec<NewJob>> = (0..batch).map(|_| next()).collect();
            producer.enqueue_all(jobs?).await?;
        }
        shared.enqueued.fetch_add(batch as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn probe(mut producer: Box<dyn Producer>, shared: Arc<Shared>) -> StorageResult<()> {
    let mut ticks = interval(PROBE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        ticks.tick().await;
        if shared.stopped() {
            break;
        }
        producer.enqueue(job(Probe { number })?).await?;
        shared.probes.lock().unwrap_or_else(PoisonError::into_inner).push(now());
    }
    Ok(())
}

fn job(job: impl diesel_jobs_core::Job) -> StorageResult<NewJob> {
    job.into_new_job().map_err(|error| StorageError::Refused(Box::new(error)))
}
