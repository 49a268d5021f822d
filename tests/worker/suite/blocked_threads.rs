//! A worker whose handlers block every thread of its runtime, so that nothing else runs there.

use std::path::PathBuf;

use diesel_jobs::{JobBuilder, JobId, JobState};
use support::{Conn, Db, Process, until};
use worker_app::Hog;

/// The jobs. One of them runs. The other one may be claimed, too, until the worker releases it.
const JOBS: usize = 2;

pub(crate) struct Blocked {
    pub(crate) jobs: Vec<JobId>,
    /// The handlers end when this file is there.
    until_there: PathBuf,
}

impl Blocked {
    /// Starts the worker, and waits until its only thread is blocked.
    pub(crate) async fn start(db: &Db, args: &[&str]) -> (Process, Self) {
        let blocked = Self::enqueue(&mut db.conn().await, JOBS, Vec::new()).await;
        let worker = with_one_thread(db.url(), args);
        blocked.begun().await;
        (worker, blocked)
    }

    /// Enqueues this many of the jobs, and others behind them.
    pub(crate) async fn enqueue(conn: &mut Conn, number: usize, others: Vec<JobBuilder>) -> Self {
        let until_there = std::env::temp_dir().join(format!("hogs-{}", uuid::Uuid::now_v7()));
        let hog = || JobBuilder::from(Hog { until_there: until_there.display().to_string() });
        let mut jobs = conn.enqueue_all((0..number).map(|_| hog()).chain(others)).await;
        jobs.truncate(number);
        Self { jobs, until_there }
    }

    /// Waits until one of the handlers has begun.
    pub(crate) async fn begun(&self) {
        let begun = Hog::begun(&self.until_there);
        until("a handler to block the thread", async || begun.exists().then_some(())).await;
    }

    pub(crate) fn let_go(&self) {
        std::fs::write(&self.until_there, "").unwrap();
    }

    /// Lets the handlers go, and waits for the ends of the jobs, each at its first attempt.
    pub(crate) async fn complete(self, db: &Db) {
        self.let_go();
        for id in &self.jobs {
            let job = until("the end of a hog", async || {
                Some(db.record(*id).await).filter(|job| !matches!(job.state, JobState::Running | JobState::Available))
            });
            let job = job.await;
            assert_eq!((job.state, job.attempt, job.crashes), (JobState::Completed, 1, 0));
        }
    }
}

/// Starts a worker whose runtime has one thread. With two threads, the task that would block the second one may wait
/// for the first.
pub(crate) fn with_one_thread(url: &str, args: &[&str]) -> Process {
    // Tokio reads it.
    let one = [("TOKIO_WORKER_THREADS", "1")];
    Process::worker_with(env!("CARGO_BIN_EXE_worker-app"), url, args, &one)
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.until_there);
        let _ = std::fs::remove_file(Hog::begun(&self.until_there));
    }
}
