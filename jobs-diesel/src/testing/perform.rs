//! `perform`: calls the handler of one job without storing the job.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::testing::calls;
use diesel_jobs_core::{
    ClaimedJob, Handled, IntoNewJob, JobContext, JobError, JobId, Layer, Layers, Lease, Registered, Registry, States,
    WorkerId,
};

use super::store::{AsTestConnection, TestConnection};
use super::{layered, refused, stuck};

/// One attempt of a job that is not stored. See [`perform`].
#[must_use = "call `on`"]
pub struct Perform<J> {
    job: J,
    attempt: u16,
    states: States,
    layers: Layers,
    now: DateTime<Utc>,
    run_at: Option<DateTime<Utc>>,
    time_limit: Option<Duration>,
}

impl<J: Registered> std::fmt::Debug for Perform<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Perform").field("kind", &J::KIND).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// Calls the handler of this job once, with a real context. The arguments are encoded and decoded like those of a
/// stored job. The job itself is not stored, so `ctx.complete_in` has nothing to complete.
pub fn perform<J: Registered>(job: J) -> Perform<J> {
    let (states, layers) = (States::default(), Layers::default());
    Perform { job, attempt: 1, states, layers, now: Utc::now(), run_at: None, time_limit: None }
}

impl<J: Registered + IntoNewJob> Perform<J> {
    /// Sets the number of the attempt, from 1. Default: 1.
    pub fn attempt(mut self, attempt: u16) -> Self {
        self.attempt = attempt;
        self
    }

    /// Gives the handler a value, as `State<T>` and `ctx.state::<T>()`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Adds a layer, which is called before and after the handler, as with `WorkerBuilder::layer`. The time limit of
    /// the handler includes `before`, and applies separately to `after` and `error`.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.add(layer);
        self
    }

    /// Sets the time that [`JobContext::now`] returns. Default: the current time.
    pub fn now(mut self, now: DateTime<Utc>) -> Self {
        self.now = now;
        self
    }

    /// Sets the time that [`JobContext::run_at`] returns, which is the time of the tick for a job with a schedule.
    /// Default: the time that [`JobContext::now`] returns.
    pub fn run_at(mut self, run_at: DateTime<Utc>) -> Self {
        self.run_at = Some(run_at);
        self
    }

    /// Sets how long the handler may run. Default: 30 s, or the timeout of its kind if that is shorter.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Runs the handler. A transactional handler receives this connection, and runs in a savepoint that is rolled back
    /// if the handler fails. A sync connection returns the result of the handler, and an async connection returns a
    /// future of it.
    ///
    /// # Errors
    ///
    /// Returns the error of the handler. A panic, arguments that cannot be encoded, a missing state and an exceeded
    /// time limit are errors, too. A handler that exceeds its time limit probably uses another connection, and waits
    /// there for a lock that the transaction of this connection holds.
    pub fn on<C>(self, conn: &mut C) -> <C::Connection as TestConnection>::Answer<'_, Handled>
    where
        C: AsTestConnection,
        J: Send,
    {
        let conn = conn.as_test_connection();
        let limit = stuck::limit(self.time_limit, &J::REGISTRATION);
        let layers = self.layers.clone();
        let prepared = self.prepare::<C::Connection>();
        <C::Connection as TestConnection>::answer(Box::pin(async move {
            layered::call(conn, &J::REGISTRATION, prepared?, &layers, limit)
                .await
                .unwrap_or_else(|stuck| Err(JobError::msg(stuck)))
        }))
    }

    fn prepare<C: TestConnection>(self) -> Result<JobContext, JobError> {
        check::<J, C>(&self.layers.known(&self.states))?;
        let job = claimed(self.job, self.attempt, self.now, self.run_at)?;
        Ok(JobContext::for_test(job, Arc::new(self.states), self.now, J::OPTIONS.secrets))
    }
}

/// Refuses a job whose handler needs what it cannot get here.
pub(super) fn check<J: Registered, C: TestConnection>(states: &States) -> Result<(), JobError> {
    calls::install_hook();
    let checked = Registry::new().with::<J>().check(states, C::provides, "this connection");
    checked.map_err(|problem| JobError::msg(refused::explain(&problem)))
}

/// The job as if it was claimed.
pub(super) fn claimed(
    job: impl IntoNewJob,
    attempt: u16,
    now: DateTime<Utc>,
    run_at: Option<DateTime<Utc>>,
) -> Result<ClaimedJob, JobError> {
    let new = job.into_new_job().map_err(JobError::new)?;
    Ok(ClaimedJob {
        lease: Lease { job: JobId(1), number: i32::from(attempt), worker: WorkerId::generate() },
        flags: JobFlags::default(),
        kind: new.kind.into_owned(),
        queue: new.queue.into_owned(),
        priority: new.priority,
        args: new.args.into_bytes(),
        attempt,
        max_attempts: new.max_attempts,
        run_at: run_at.unwrap_or(now),
        enqueued_at: now,
        claimed_at: now,
        traceparent: new.traceparent,
        start_by: None,
    })
}
