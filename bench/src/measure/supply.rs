//! A producer that keeps the number of waiting jobs near a fixed figure. It enqueues in bulk, as soon as fewer jobs
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::kinds::Noop;
use crate::raw::BulkEnqueuer;
use crate::server::Database;

/// How many jobs wait.
pub(super) const WAITING: u64 = 10_000;
/// Jobs per call.
const BATCH: u64 = 500;
/// Connections that enqueue at a fixed rate, one job at a time.
const PRODUCERS: u32 = 16;
/// Batches per second of a producer that enqueues at a fixed rate, in batches.
const STEPS: u32 = 100;

/// A running producer. It ends when dropped.
pub(super) struct Supply {
    tasks: JoinSet<Result<()>>,
    enqueued: Arc<AtomicU64>,
}

impl Supply {
    /// Enqueues like an application, in batches of 500.
    pub(super) async fn ours(database: &Database<'_>, done: watch::Receiver<u64>) -> Result<Self> {
        let mut conn = database.connection().await?;
        let (mut tasks, enqueued) = Self::parts();
        let count = enqueued.clone();
        tasks.spawn(async move {
            let mut throttle = Throttle::new(done);
            while throttle.room(&count).await {
                let jobs = (0..BATCH).map(|_| Noop { id: 1, name: "hello".to_owned() });
                diesel_jobs::enqueue_all(&mut conn, jobs).await?;
            }
            Ok(())
        });
        Ok(Self { tasks, enqueued })
    }

    /// Enqueues with hand-written statements, in batches of the same size.
    pub(super) async fn raw(database: &Database<'_>, done: watch::Receiver<u64>) -> Result<Self> {
        let mut enqueuer = BulkEnqueuer::connect(&database.url).await?;
        let (mut tasks, enqueued) = Self::parts();
        let count = enqueued.clone();
        tasks.spawn(async move {
            let mut throttle = Throttle::new(done);
            while throttle.room(&count).await {
                enqueuer.enqueue(BATCH as usize).await?;
            }
            Ok(())
        });
        Ok(Self { tasks, enqueued })
    }

    /// Enqueues this many jobs per second, one at a time, however many wait. It uses several connections, because a
    /// commit on a slow disk takes longer than the time between two jobs.
    pub(super) async fn steadily(database: &Database<'_>, per_second: u32) -> Result<Self> {
        use diesel_jobs::Enqueue as _;
        let (mut tasks, enqueued) = Self::parts();
        let pace = Duration::from_secs(1) / per_second;
        let begin = Instant::now() + Duration::from_millis(100);
        for place in 0..PRODUCERS {
            let mut conn = database.connection().await?;
            let count = enqueued.clone();
            let mut ticks = tokio::time::interval_at(begin + pace * place, pace * PRODUCERS);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            tasks.spawn(async move {
                loop {
                    ticks.tick().await;
                    Noop { id: 1, name: "hello".to_owned() }.enqueue(&mut conn).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(Self { tasks, enqueued })
    }

    /// Enqueues this many jobs per second, however many wait, in 100 batches per second on one connection.
    pub(super) async fn in_steps(database: &Database<'_>, per_second: u32) -> Result<Self> {
        let mut conn = database.connection().await?;
        let (mut tasks, enqueued) = Self::parts();
        let (count, jobs) = (enqueued.clone(), per_second / STEPS);
        tasks.spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / STEPS);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                ticks.tick().await;
                let batch = (0..jobs).map(|_| Noop { id: 1, name: "hello".to_owned() });
                diesel_jobs::enqueue_all(&mut conn, batch).await?;
                count.fetch_add(u64::from(jobs), Ordering::Relaxed);
            }
        });
        Ok(Self { tasks, enqueued })
    }

    fn parts() -> (JoinSet<Result<()>>, Arc<AtomicU64>) {
        (JoinSet::new(), Arc::default())
    }

    /// Returns how many jobs it has enqueued so far.
    pub(super) fn enqueued(&self) -> u64 {
        self.enqueued.load(Ordering::Relaxed)
    }

    /// Ends the producer. Returns an error if it had failed before.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.tasks.abort_all();
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(ended) => ended.context("the producer failed")?,
                Err(error) if error.is_cancelled() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Compares the number of enqueued jobs with the number of completed ones.
struct Throttle {
    done: watch::Receiver<u64>,
}

impl Throttle {
    fn new(done: watch::Receiver<u64>) -> Self {
        Self { done }
    }

    /// Waits until there is room for another batch, and counts it. Returns false if all workers have ended.
    async fn room(&mut self, enqueued: &AtomicU64) -> bool {
        while enqueued.load(Ordering::Relaxed).saturating_sub(*self.done.borrow_and_update()) >= WAITING {
            if self.done.changed().await.is_err() {
                return false;
            }
        }
        enqueued.fetch_add(BATCH, Ordering::Relaxed);
        true
    }
}
