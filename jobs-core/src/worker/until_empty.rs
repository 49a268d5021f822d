//! `run_until_empty`: runs a worker until nothing is left, for tests, tools and one-off runs.

use std::future::IntoFuture;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::bounds::Bounds;
use super::error::WorkerError;
use super::run::Worker;
use super::stats::WorkerStats;
use crate::storage::Operator;

/// A run of a worker that ends when no jobs are left. It starts when you `.await` it. See [`Worker::run_until_empty`].
#[must_use = "it runs when it is awaited"]
pub struct UntilEmpty {
    worker: Worker,
    bounds: Bounds,
}

impl std::fmt::Debug for UntilEmpty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UntilEmpty")
            .field("worker", &self.worker)
            .field("attempts", &self.bounds.attempts)
            .field("skip_time", &self.bounds.skip_time.is_some())
            .finish()
    }
}

impl Worker {
    /// Runs until no job of the worker's queues and kinds is waiting, including jobs that are due later, and this
    /// worker runs none. It returns what the worker has done. This is meant for tests, tools and one-off runs.
    pub fn run_until_empty(self) -> UntilEmpty {
        UntilEmpty { worker: self, bounds: Bounds { attempts: u64::MAX, skip_time: None } }
    }
}

impl UntilEmpty {
    /// Ends the run with [`WorkerError::TooManyAttempts`] as soon as the worker has claimed jobs more often than this,
    /// once for each attempt, those that have not started yet included. Without a limit, a job that always snoozes or
    /// enqueues itself again keeps a test running forever. Default: no limit.
    pub fn limit(mut self, attempts: u64) -> Self {
        self.bounds.attempts = attempts;
        self
    }

    /// Skips delays and backoffs instead of waiting for them. Use this in tests that have a database of their own. When
    /// no job is due, the stored times of all jobs are moved back by the same span, so that the earliest job becomes
    /// due. [`JobContext::now`](crate::JobContext::now) is ahead by the sum of these spans. Schedules are not affected.
    ///
    /// Because this option changes stored times, the run fails with [`WorkerError::Storage`] if another worker serves
    /// the database.
    ///
    /// Pass the field `operator` of the `Database`.
    pub fn skip_time(mut self, operator: Arc<dyn Operator>) -> Self {
        self.bounds.skip_time = Some(operator);
        self
    }
}

impl IntoFuture for UntilEmpty {
    type Output = Result<WorkerStats, WorkerError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { worker, bounds } = self;
        Box::pin(worker.run_within(bounds))
    }
}
