//! For unit tests of handlers.

use std::sync::Arc;

use chrono::Utc;
use tokio_util::sync::CancellationToken;

use crate::context::JobContext;
use crate::flags::JobFlags;
use crate::job_id::JobId;
use crate::lease::{ClaimedJob, Lease, WorkerId};
use crate::states::States;

/// Makes a [`JobContext`] without a database, to call a handler with.
///
/// ```
/// # use diesel_jobs_core::{JobContext, TestContext};
/// async fn greet(ctx: &JobContext) -> String {
///     format!("{} of {}, to {}", ctx.attempt(), ctx.max_attempts(), ctx.state::<&str>().unwrap())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let ctx = TestContext::new("greet").attempt(2).state("Ada").build();
/// assert_eq!(greet(&ctx).await, "2 of 25, to Ada");
/// # });
/// ```
#[must_use = "call `build`"]
pub struct TestContext {
    job: ClaimedJob,
    states: States,
    token: CancellationToken,
}

impl std::fmt::Debug for TestContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestContext").field("job", &self.job).finish_non_exhaustive()
    }
}

impl TestContext {
    /// The first attempt of job 1 of this kind, in the queue `default`, with 25 attempts and no arguments.
    pub fn new(kind: impl Into<String>) -> Self {
        let now = Utc::now();
        let job = ClaimedJob {
            lease: Lease { job: JobId(1), number: 1, worker: WorkerId::generate() },
            flags: JobFlags::default(),
            kind: kind.into(),
            queue: "default".to_owned(),
            priority: 0,
            args: b"{}".to_vec(),
            attempt: 1,
            max_attempts: 25,
            run_at: now,
            enqueued_at: now,
            claimed_at: now,
            traceparent: None,
            start_by: None,
        };
        Self { job, states: States::default(), token: CancellationToken::new() }
    }

    /// Sets the job's id.
    pub fn id(mut self, id: JobId) -> Self {
        self.job.lease.job = id;
        self
    }

    /// Sets the stored arguments.
    pub(crate) fn args(mut self, stored: Vec<u8>) -> Self {
        self.job.args = stored;
        self
    }

    /// Sets which attempt it is, from 1.
    pub fn attempt(mut self, attempt: u16) -> Self {
        self.job.attempt = attempt;
        self
    }

    /// Sets how many attempts the job has.
    pub fn max_attempts(mut self, max_attempts: u16) -> Self {
        self.job.max_attempts = max_attempts;
        self
    }

    /// Gives the handler a value for `ctx.state::<T>()`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Makes the attempt one that was asked to stop.
    pub fn cancelled(self) -> Self {
        self.token.cancel();
        self
    }

    /// The context.
    pub fn build(self) -> JobContext {
        JobContext::new(self.job, self.token, Arc::new(self.states))
    }
}
