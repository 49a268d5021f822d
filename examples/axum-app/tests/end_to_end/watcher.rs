//! Runs a query repeatedly while the test runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::claims::NEVER;
use crate::database::{Db, number};

/// Queries for what must never occur, from the first request to the last job.
pub(super) struct Watcher {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Watched>,
}

/// How often it was queried, and how often the query found something.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) checks: usize,
    pub(super) exceptions: usize,
}

impl Watcher {
    const PAUSE: Duration = Duration::from_millis(30);

    pub(super) async fn start(db: &Db) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut conn, stopped) = (db.conn().await, stop.clone());
        let task = tokio::spawn(async move {
            let mut watched = Watched::default();
            while !stopped.load(Ordering::Relaxed) {
                watched.checks += 1;
                watched.exceptions += usize::from(number(&mut conn, NEVER).await != 0);
                tokio::time::sleep(Self::PAUSE).await;
            }
            watched
        });
        Self { stop, task }
    }

    pub(super) async fn stop(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}
