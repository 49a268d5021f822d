//! `drain`: runs waiting jobs one by one on the connection of a test, inside its transaction.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::testing::calls;
use diesel_jobs_core::{
    Attempt, Failure, Finish, Job, JobContext, JobId, JobRecord, Registration, Registry, Retention, States,
    StorageError, Transition, WorkerId, flags,
};

use super::report::{DrainReport, RanJob, StillWaiting};
use super::store::{AsTestConnection, TestConnection};
use super::waiting::Waiting;

/// A drain runs at most this many attempts, unless another limit is set. A job that always snoozes would never end.
const LIMIT: usize = 10_000;
/// Backoffs with jitter always take this part of their bound, so that tests can be repeated.
const JITTER: f64 = 0.5;

/// Runs the jobs that a connection sees. See [`drain`].
#[must_use = "call `run`"]
pub struct Drain<'c, C> {
    conn: &'c mut C,
    plan: Plan,
}

struct Plan {
    registry: Option<Registry>,
    states: States,
    kinds: Vec<&'static str>,
    queues: Vec<String>,
    limit: usize,
    skip_time: bool,
    fail_fast: bool,
    once: bool,
}

impl<C> std::fmt::Debug for Drain<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Plan { kinds, queues, limit, skip_time, fail_fast, once, .. } = &self.plan;
        f.debug_struct("Drain")
            .field("kinds", kinds)
            .field("queues", queues)
            .field("limit", limit)
            .field("skip_time", skip_time)
            .field("fail_fast", fail_fast)
            .field("once", once)
            .finish_non_exhaustive()
    }
}

/// Runs the waiting jobs that this connection sees, on this connection, one after the other, until none is due. Jobs that
/// these jobs enqueue are run, too. There is no worker and no second connection, so everything stays inside the
/// transaction of the test. A transactional handler runs in a savepoint, which is rolled back if the handler fails.
///
/// An async handler on a sync connection runs on a thread with a runtime of its own.
pub fn drain<C>(conn: &mut C) -> Drain<'_, C::Connection>
where
    C: AsTestConnection,
{
    let plan = Plan {
        registry: None,
        states: States::default(),
        kinds: Vec::new(),
        queues: Vec::new(),
        limit: LIMIT,
        skip_time: false,
        fail_fast: false,
        once: false,
    };
    Drain { conn: conn.as_test_connection(), plan }
}

impl<'c, C: TestConnection> Drain<'c, C> {
    /// Gives handlers a value for `State<T>` and `ctx.state::<T>()`, as `WorkerBuilder::state` does.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.plan.states.insert(value);
        self
    }

    /// Finds handlers here instead of among all jobs that are linked into the program.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.plan.registry = Some(registry);
        self
    }

    /// Makes delays, backoffs and scheduled times pass at once. When no job is due, the earliest one runs, and
    /// [`JobContext::now`] returns its time.
    pub fn skip_time(mut self) -> Self {
        self.plan.skip_time = true;
        self
    }

    /// Runs only jobs of this kind, and of other kinds that are named like this.
    pub fn only<J: Job>(mut self) -> Self {
        self.plan.kinds.push(J::KIND);
        self
    }

    /// Runs only jobs of this queue, and of other queues that are named like this.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.plan.queues.push(queue.into());
        self
    }

    /// Ends after this many attempts. Default: 10,000.
    pub fn limit(mut self, attempts: usize) -> Self {
        self.plan.limit = attempts;
        self
    }

    /// Ends after the first attempt that fails.
    pub fn fail_fast(mut self) -> Self {
        self.plan.fail_fast = true;
        self
    }

    /// Runs only the jobs that wait now, each once.
    pub fn once(mut self) -> Self {
        self.plan.once = true;
        self
    }

    /// Runs the jobs. Sync connections return a `Result`, async ones a future of it. A job that fails is part of the
    /// report. An error means that the database failed, or that a job needs a state or a connection that it cannot get
    /// here.
    pub fn run(self) -> C::Answer<'c, StorageResult<DrainReport>> {
        let Self { conn, plan } = self;
        C::answer(Box::pin(async move { plan.run(conn).await }))
    }
}

impl Plan {
    async fn run<C: TestConnection>(mut self, conn: &mut C) -> StorageResult<DrainReport> {
        calls::install_hook();
        let registry = self.registry.take().unwrap_or_else(Registry::linked);
        let (states, worker) = (Arc::new(std::mem::take(&mut self.states)), WorkerId::generate());
        let (mut report, mut skipped, mut done) = (DrainReport::default(), TimeDelta::zero(), HashSet::new());
        let at_first: HashSet<JobId> = match self.once {
            true => conn.waiting().await?.jobs.iter().map(|job| job.id).collect(),
            false => HashSet::new(),
        };
        loop {
            let Waiting { jobs, now } = conn.waiting().await?;
            let may_run = |job: &JobRecord| {
                self.left_out(job, &registry).is_none()
                    && (!self.once || at_first.contains(&job.id) && !done.contains(&job.id))
            };
            let next = self.next(jobs.iter().filter(|job| may_run(job)), now + skipped);
            let over = report.ran.len() >= self.limit || self.fail_fast && report.ran.iter().any(RanJob::failed);
            let Some(next) = next.filter(|_| !over) else {
                let why = |job: &JobRecord| self.why(job, &registry, now + skipped, over);
                report.waiting = jobs.iter().map(|job| StillWaiting::new(job, why(job))).collect();
                return Ok(report);
            };
            skipped = skipped.max(next.run_at - now);
            done.insert(next.id);
            // The registry was asked above.
            let Some(registration) = registry.get(&next.kind) else { continue };
            check::<C>(registration, &states)?;
            let Some(job) = conn.start(next.id, worker).await? else { continue };
            let ctx = JobContext::for_test(job, states.clone(), now + skipped);
            let transition = attempt(conn, registration, &ctx).await;
            if registration.connection.is_some() && ctx.is_completed_in() {
                return Err(StorageError::Config(format!(
                    "job {} of kind `{}` called complete_in, but its own transaction completes it: a worker fails such an attempt",
                    ctx.id(),
                    ctx.kind()
                )));
            }
            report.ran.push(RanJob::new(&ctx, &transition));
            if !conn.finish(Finish { lease: ctx.lease(), transition }).await? && !ctx.is_completed_in() {
                let problem = format!("job {} of kind `{}` is gone after its attempt", ctx.id(), ctx.kind());
                return Err(StorageError::Refused(problem.into()));
            }
        }
    }

    /// The best of the due jobs, or the earliest one if time is skipped. The jobs are in the order of a claim.
    fn next<'j>(&self, jobs: impl Iterator<Item = &'j JobRecord> + Clone, now: DateTime<Utc>) -> Option<&'j JobRecord> {
        let due = jobs.clone().find(|job| job.run_at <= now);
        due.or_else(|| jobs.filter(|_| self.skip_time).min_by_key(|job| job.run_at))
    }

    fn left_out(&self, job: &JobRecord, registry: &Registry) -> Option<String> {
        if !self.kinds.is_empty() && !self.kinds.contains(&job.kind.as_str()) {
            return Some("its kind was not asked for".to_owned());
        }
        if !self.queues.is_empty() && !self.queues.contains(&job.queue) {
            return Some("its queue was not asked for".to_owned());
        }
        if !flags::are_known(job.flags) {
            return Some("it uses a feature of a later version".to_owned());
        }
        registry.get(&job.kind).is_none().then(|| "this program has no handler for its kind".to_owned())
    }

    fn why(&self, job: &JobRecord, registry: &Registry, now: DateTime<Utc>, over: bool) -> String {
        if let Some(why) = self.left_out(job, registry) {
            return why;
        }
        let wait = (job.run_at - now).as_seconds_f64();
        if wait > 0.0 && !self.skip_time {
            return format!("it is due in {wait:.1} s; `skip_time` runs it now");
        }
        match over {
            true if self.fail_fast => "an attempt failed before it".to_owned(),
            true => format!("the limit of {} attempts is reached", self.limit),
            false => "it was enqueued or put back after the drain began, and `once` leaves it".to_owned(),
        }
    }
}

/// Refuses a job whose handler needs what it cannot get here.
fn check<C: TestConnection>(registration: &Registration, states: &States) -> StorageResult<()> {
    let mut registry = Registry::new();
    registry.insert(*registration);
    let checked = registry.check(states, C::provides, "this connection");
    checked.map_err(|problem| StorageError::Config(problem.to_string()))
}

async fn attempt<C: TestConnection>(conn: &mut C, registration: &Registration, ctx: &JobContext) -> Transition {
    let handled = conn.call(registration.handler, ctx.clone()).await;
    let attempt = Attempt {
        attempt: ctx.attempt(),
        max_attempts: ctx.max_attempts(),
        options: &registration.options,
        retention: Retention::default(),
    };
    calls::decided(attempt, handled, JITTER)
}

impl RanJob {
    fn new(ctx: &JobContext, transition: &Transition) -> Self {
        let error = transition.failure().map(|Failure { message, .. }| message.clone());
        Self {
            id: ctx.id(),
            kind: ctx.kind().to_owned(),
            queue: ctx.queue().to_owned(),
            attempt: ctx.attempt(),
            transition: transition.clone(),
            error,
        }
    }
}
