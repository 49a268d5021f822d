//! Runs a query repeatedly while the test runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use programs::until;
use tokio::task::JoinHandle;

use super::claims::NEVER;
use crate::database::{Db, number};

/// Queries for what must never occur, from the first request to the last job.
pub(super) struct Watcher {
    stop: Arc<AtomicBool>,
    /// How often it was queried.
    checks: Arc<AtomicUsize>,
    /// Returns how often the query found something.
    task: JoinHandle<usize>,
}

impl Watcher {
    const PAUSE: Duration = Duration::from_millis(30);

    pub(super) async fn start(db: &Db) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let checks = Arc::<AtomicUsize>::default();
        let (mut conn, stopped, counted) = (db.conn().await, stop.clone(), checks.clone());
        let task = tokio::spawn(async move {
            let mut exceptions = 0;
            while !stopped.load(Ordering::Relaxed) {
                exceptions += usize::from(number(&mut conn, NEVER).await != 0);
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Self::PAUSE).await;
            }
            exceptions
        });
        Self { stop, checks, task }
    }

    /// Waits for a query that begins from now on.
    pub(super) async fn checked(&self) {
        let checks = || self.checks.load(Ordering::Relaxed);
        let before = checks();
        until("the watcher's queries", async || (checks() > before + 1).then_some(())).await;
    }

    /// Stops, and returns how often the query found something.
    pub(super) async fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}
