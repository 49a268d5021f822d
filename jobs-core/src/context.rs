//! The context of a running job, which handlers receive.

mod times;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::job_id::JobId;
use crate::lease::{ClaimedJob, Lease};
use crate::outcome::{Finish, Keep, Retention, Transition};
#[cfg(feature = "testing")]
use crate::progress::ProgressReport;
use crate::progress::Reports;
use crate::states::States;
use crate::stop::Stop;
use crate::trace_context::Traceparent;

/// The context of a running job. Handlers take it by value or by reference. It is cheap to clone.
#[derive(Clone)]
pub struct JobContext(Arc<Inner>);

struct Inner {
    job: ClaimedJob,
    stop: Stop,
    states: Arc<States>,
    /// What layers have added to this attempt: a cell per layer, set when its `before` continued.
    layered: OnceLock<Box<[OnceLock<States>]>>,
    keep: Keep,
    /// The time, if a test sets it.
    now: Option<DateTime<Utc>>,
    completed_in: AtomicBool,
    /// When the answer to the claim arrived here.
    taken: Instant,
    /// Whether the attempt has begun, or was withdrawn before.
    begun: OnceLock<bool>,
    /// When the handler was called.
    started: OnceLock<Instant>,
    /// The attempt has ended. Its end may not be written yet.
    ended: AtomicBool,
    /// It was logged that the attempt takes unusually long.
    long: AtomicBool,
    reports: Arc<Reports>,
}

/// Without a registry it is not known which arguments are secret.
fn no_secrets() -> Arc<Reports> {
    Arc::new(Reports::new(|_| &[]))
}

impl JobContext {
    /// Creates the context of a claimed job. Workers create one for each attempt. In tests, build one with
    /// [`TestContext`](crate::TestContext).
    pub fn new(job: ClaimedJob, token: CancellationToken, states: Arc<States>) -> Self {
        let keep = Keep::For(Retention::default().completed);
        Self::with(job, Stop::by(token), states, keep, None, no_secrets(), Instant::now())
    }

    /// The context of an attempt in a test, at this time. `secrets` are the names of the kind's secret arguments.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn for_test(
        job: ClaimedJob,
        states: Arc<States>,
        now: DateTime<Utc>,
        secrets: &'static [&'static str],
    ) -> Self {
        let keep = Keep::For(Retention::default().completed);
        Self::with(
            job,
            Stop::default(),
            states,
            keep,
            Some(now),
            Arc::new(Reports::new(move |_| secrets)),
            Instant::now(),
        )
    }

    /// Like [`new`](Self::new), for a worker. It takes the retention of the completed job, the time that a test has
    /// set, the receiver of progress reports, and the time at which the answer to the claim arrived.
    pub(crate) fn of_worker(
        job: ClaimedJob,
        states: Arc<States>,
        keep: Keep,
        now: Option<DateTime<Utc>>,
        reports: &Arc<Reports>,
        taken: Instant,
    ) -> Self {
        Self::with(job, Stop::default(), states, keep, now, reports.clone(), taken)
    }

    fn with(
        job: ClaimedJob,
        stop: Stop,
        states: Arc<States>,
        keep: Keep,
        now: Option<DateTime<Utc>>,
        reports: Arc<Reports>,
        taken: Instant,
    ) -> Self {
        Self(Arc::new(Inner {
            job,
            stop,
            states,
            layered: OnceLock::new(),
            keep,
            now,
            completed_in: false.into(),
            taken,
            begun: OnceLock::new(),
            started: OnceLock::new(),
            ended: false.into(),
            long: false.into(),
            reports,
        }))
    }

    /// The job's id. It is the same for all attempts.
    pub fn id(&self) -> JobId {
        self.0.job.lease.job
    }

    /// The job's kind.
    pub fn kind(&self) -> &str {
        &self.0.job.kind
    }

    /// The job's queue.
    pub fn queue(&self) -> &str {
        &self.0.job.queue
    }

    /// The number of this attempt, starting from 1. Earlier runs that ended with a snooze or a graceful stop are not
    /// counted.
    pub fn attempt(&self) -> u16 {
        self.0.job.attempt
    }

    /// How many attempts the job has, including the first. If the last one fails, the job is discarded.
    pub fn max_attempts(&self) -> u16 {
        self.0.job.max_attempts
    }

    /// When the job was enqueued, by the database's clock.
    pub fn enqueued_at(&self) -> DateTime<Utc> {
        self.0.job.enqueued_at
    }

    /// When the job became due.
    pub fn run_at(&self) -> DateTime<Utc> {
        self.0.job.run_at
    }

    /// The trace context of the enqueue, as a W3C `traceparent`. If the program has called
    /// [`set_trace_link`](crate::set_trace_link), the span of the attempt already continues this trace or links to it.
    pub fn traceparent(&self) -> Option<&str> {
        self.0.job.traceparent.as_ref().map(Traceparent::as_str)
    }

    /// When this attempt was claimed, by the database's clock.
    pub fn claimed_at(&self) -> DateTime<Utc> {
        self.0.job.claimed_at
    }

    /// The current time by this machine's clock. In a test that sets or skips time, it is the time of the test.
    pub fn now(&self) -> DateTime<Utc> {
        self.0.now.unwrap_or_else(Utc::now)
    }

    /// Reports the progress of the job: `done` of `total` units, and a message. `worker show` and the view of all jobs
    /// show the newest report, which the job keeps across its attempts.
    ///
    /// This function does not wait for the database. The worker stores the newest report of each job at most once a
    /// second, through a connection of its own. The report is therefore visible while the handler's transaction is
    /// still open, and a rollback does not undo it. Messages are truncated to 8 KiB, and the values of secret arguments
    /// are removed from them.
    ///
    /// ```
    /// # use diesel_jobs_core::JobContext;
    /// async fn import(files: Vec<String>, ctx: &JobContext) {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.progress(done as u64, files.len() as u64, format!("reading {file}"));
    ///         // ..
    ///     }
    /// }
    /// ```
    pub fn progress(&self, done: u64, total: u64, message: impl Into<String>) {
        self.0.reports.add(&self.0.job, done, total, message.into());
    }

    /// Takes the reports that are not stored yet.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn take_progress(&self) -> Vec<ProgressReport> {
        self.0.reports.take()
    }

    /// An idempotency key to pass to other systems. It is the same in all attempts of this job, even after a retry by
    /// an operator, and different for every other job. The key contains the time of the enqueue in microseconds,
    /// because another database, a restored database or a newly created schema may assign the same id again.
    pub fn idempotency_key(&self) -> String {
        format!("job-{}-{}", self.id(), self.enqueued_at().timestamp_micros())
    }

    /// A number that increases with each lease of this job. If another system stores the largest number it has seen and
    /// refuses smaller ones, an attempt that has lost its lease can no longer write there once a later attempt has
    /// written.
    pub fn fencing_token(&self) -> i32 {
        self.0.job.lease.number
    }

    /// Waits until the attempt should stop: its lease is lost, its time limit is reached, or its worker is shutting
    /// down and the grace period is over.
    pub async fn cancelled(&self) {
        self.0.stop.token().cancelled().await;
    }

    /// Whether the attempt should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.stop.is_asked()
    }

    /// The token behind [`cancelled`](Self::cancelled), to pass to other functions and tasks.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.0.stop.token().clone()
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.0.stop
    }

    /// The value of type `T` that a layer has added to this attempt or, if there is none, that the worker was given
    /// with `WorkerBuilder::state`.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let mut added = self.0.layered.get().into_iter().flatten().rev().filter_map(OnceLock::get);
        added.find_map(States::get).or_else(|| self.0.states.get())
    }

    /// The cells for what layers add, one for each of this many layers.
    pub(crate) fn layered(&self, layers: usize) -> &[OnceLock<States>] {
        self.0.layered.get_or_init(|| (0..layers).map(|_| OnceLock::new()).collect())
    }

    /// How many layers continued.
    pub(crate) fn layers_passed(&self) -> usize {
        self.0.layered.get().map_or(0, |layered| layered.iter().take_while(|added| added.get().is_some()).count())
    }

    /// The lease under which the attempt runs.
    pub fn lease(&self) -> Lease {
        self.0.job.lease
    }

    #[doc(hidden)]
    pub fn claimed(&self) -> &ClaimedJob {
        &self.0.job
    }

    #[doc(hidden)]
    pub fn completion(&self) -> Finish {
        Finish::new(&self.0.job, Transition::Complete(self.0.keep))
    }

    #[doc(hidden)]
    pub fn mark_completed_in(&self) {
        self.0.completed_in.store(true, Ordering::Release);
    }

    #[doc(hidden)]
    pub fn is_completed_in(&self) -> bool {
        self.0.completed_in.load(Ordering::Acquire)
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.job, f)
    }
}
