//! A producer that keeps the number of waiting jobs near one figure, in bulk, throttled by that figure alone.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::kinds::Noop;
use crate::raw::BulkEnqueuer;
use crate::server::Database;

/// Jobs that wait.
pub(super) const WAITING: u64 = 10_000;
/// Jobs per call.
const BATCH: u64 = 500;

/// A producer at work; it ends with this value.
pub(super) struct Supply {
    task: JoinHandle<Result<()>>,
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Supply {
    /// Enqueues as an application does, in batches of 500.
    pub(super) async fn ours(database: &Database<'_>, done: watch::Receiver<u64>) -> Result<Self> {
        let mut conn = database.connection().await?;
        let task = tokio::spawn(async move {
            let mut throttle = Throttle::new(done);
            while throttle.room().await {
                let jobs = (0..BATCH).map(|_| Noop { id: 1, name: "hello".to_owned() });
                jobs::enqueue_all(&mut conn, jobs).await?;
            }
            Ok(())
        });
        Ok(Self { task })
    }

    /// Enqueues by hand-written statements, in batches of the same size.
    pub(super) async fn raw(database: &Database<'_>, done: watch::Receiver<u64>) -> Result<Self> {
        let mut enqueuer = BulkEnqueuer::connect(&database.url).await?;
        let task = tokio::spawn(async move {
            let mut throttle = Throttle::new(done);
            while throttle.room().await {
                enqueuer.enqueue(BATCH as usize).await?;
            }
            Ok(())
        });
        Ok(Self { task })
    }

    /// Enqueues so many jobs a second, one at a time, whatever becomes of them.
    pub(super) async fn steadily(database: &Database<'_>, per_second: u32) -> Result<Self> {
        use jobs::Enqueue as _;
        let mut conn = database.connection().await?;
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
            loop {
                ticks.tick().await;
                Noop { id: 1, name: "hello".to_owned() }.enqueue(&mut conn).await?;
            }
        });
        Ok(Self { task })
    }

    /// Ends it. An error if it had failed before.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.task.abort();
        match (&mut self.task).await {
            Ok(ended) => ended.context("the producer failed"),
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Counts what was enqueued against what is done.
struct Throttle {
    done: watch::Receiver<u64>,
    enqueued: u64,
}

impl Throttle {
    fn new(done: watch::Receiver<u64>) -> Self {
        Self { done, enqueued: 0 }
    }

    /// Waits until there is room for another batch, and counts it. `false`: nobody works any more.
    async fn room(&mut self) -> bool {
        while self.enqueued - *self.done.borrow_and_update() >= WAITING {
            if self.done.changed().await.is_err() {
                return false;
            }
        }
        self.enqueued += BATCH;
        true
    }
}
