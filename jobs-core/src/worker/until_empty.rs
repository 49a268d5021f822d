//! `run_until_empty`: runs a worker until nothing is left, for tests, tools and one-off runs.

use std::future::IntoFuture;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::bounds::{Bounds, Later};
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
            .field("skip_time", &matches!(self.bounds.later, Later::Skip(_)))
            .field("due_only", &matches!(self.bounds.later, Later::Leave))
            .finish()
    }
}

impl Worker {
    /// Runs until no job of the worker's queues and kinds is waiting, including jobs that are due later, and this
    /// worker runs none. It returns what the worker has done. This is meant for tests, tools and one-off runs. With
    /// [`due_only`](UntilEmpty::due_only), jobs that are due later are left.
    ///
    /// A shutdown by the worker's [handle](Self::handle) ends the run before that, like any other.
    pub fn run_until_empty(self) -> UntilEmpty {
        UntilEmpty { worker: self, bounds: Bounds { attempts: u64::MAX, later: Later::Await } }
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
    /// Pass the field `operator` of the `Database`. This option replaces [`due_only`](Self::due_only).
    pub fn skip_time(mut self, operator: Arc<dyn Operator>) -> Self {
        self.bounds.later = Later::Skip(operator);
        self
    }

    /// Ends the run as soon as no job is due and this worker runs none. Use this in programs that something else starts
    /// again, such as a cron job. It replaces [`skip_time`](Self::skip_time).
    ///
    /// The worker runs the jobs that are due when it starts, those that become due while it runs, and those that wait
    /// for a token of their [rate](crate::Rate), for which it waits, however long that takes. It also enqueues the
    /// ticks of schedules that are due when it starts. Those that are more than a minute old are missed, and
    /// [`CatchUp`](crate::CatchUp) decides about them: by default they create no jobs. It leaves jobs
    ///
    /// - that are scheduled for later, which includes failed jobs that wait for their next attempt, and snoozed ones,
    /// - that wait for a permit of a limit, or for their turn in a sequence, because of a job that this worker does not
    ///   run,
    /// - whose queue or kind is paused, or whose queue has no slots, and all jobs if the database is frozen,
    /// - that another worker runs.
    ///
    /// If another worker is dead, because its lease is over, the run goes on until its jobs are rescued, usually for
    /// half a lease, and at most for two. [`WorkerStats::discarded`] counts the jobs that this rescue discards, too.
    ///
    /// ```no_run
    /// # use diesel_jobs_core::{Worker, WorkerError};
    /// # async fn run(worker: Worker) -> Result<(), WorkerError> {
    /// let stats = worker.run_until_empty().due_only().await?;
    /// println!("{} jobs have completed, {} will be retried", stats.completed, stats.retried);
    /// # Ok(())
    /// # }
    /// ```
    pub fn due_only(mut self) -> Self {
        self.bounds.later = Later::Leave;
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
