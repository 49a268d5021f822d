//! `drain`: runs waiting jobs one by one on the connection of a test, inside its transaction.

use std::time::Duration;

use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{Layer, Layers, Registered, Registry, States};

use super::attempts;
use super::plan::Plan;
use super::report::DrainReport;
use super::store::{AsTestConnection, TestConnection};

/// A drain runs at most this many attempts, unless another limit is set. A job that always snoozes would never end.
const LIMIT: usize = 10_000;

/// A run of the jobs that a connection sees. See [`drain`].
#[must_use = "call `run`"]
pub struct Drain<'c, C> {
    conn: &'c mut C,
    plan: Plan,
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

/// Runs the waiting jobs that this connection sees, one after the other, until none is due, including those that these
/// jobs enqueue. All jobs run on this connection, without a worker or a second connection, so everything stays inside
/// the transaction of the test. A transactional handler runs in a savepoint, which is rolled back if the handler fails.
///
/// With a sync connection, async handlers run on a thread with a Tokio runtime of its own.
pub fn drain<C>(conn: &mut C) -> Drain<'_, C::Connection>
where
    C: AsTestConnection,
{
    let plan = Plan {
        registry: None,
        states: States::default(),
        layers: Layers::default(),
        kinds: Vec::new(),
        queues: Vec::new(),
        limit: LIMIT,
        skip_time: false,
        fail_fast: false,
        once: false,
        time_limit: None,
    };
    Drain { conn: conn.as_test_connection(), plan }
}

impl<'c, C: TestConnection> Drain<'c, C> {
    /// Shares a value with handlers, as `State<T>` and `ctx.state::<T>()`, as `WorkerBuilder::state` does.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.plan.states.insert(value);
        self
    }

    /// Adds a layer, which is called before and after each attempt, as with `WorkerBuilder::layer`. The time limit of
    /// the handler includes `before`, and applies separately to `after` and `error`.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.plan.layers.add(layer);
        self
    }

    /// Uses the handlers of this registry. Default: all handlers that are linked into the program.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.plan.registry = Some(registry);
        self
    }

    /// Also runs jobs that are due later, without waiting for their delays, backoffs and scheduled times. When no job
    /// is due, the earliest one runs, and [`JobContext::now`](diesel_jobs_core::JobContext::now) returns the time at
    /// which it was due.
    pub fn skip_time(mut self) -> Self {
        self.plan.skip_time = true;
        self
    }

    /// Runs only jobs of this kind, including those of its earlier versions and its aliases. Several calls add kinds.
    pub fn only<J: Registered>(mut self) -> Self {
        self.plan.kinds.extend(J::REGISTRATION.kinds());
        self
    }

    /// Runs only jobs in this queue, or in the queues that fit a pattern such as `tenant-*`. Several calls add queues.
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

    /// Runs only the jobs that are waiting when the drain begins, each of them once.
    pub fn once(mut self) -> Self {
        self.plan.once = true;
        self
    }

    /// Sets how long a handler may run. Default: 30 s, or the timeout of its kind if that is shorter.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.plan.time_limit = Some(limit);
        self
    }

    /// Runs the jobs, and returns a report that also lists the failed ones. A sync connection returns a `Result`, and
    /// an async connection returns a future of it.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails, if a job takes a state or a connection that the drain does not have, or
    /// if a handler exceeds its time limit. Such a handler probably uses another connection, and waits there for a lock
    /// that the transaction of this connection holds.
    pub fn run(self) -> C::Answer<'c, StorageResult<DrainReport>> {
        let Self { conn, plan } = self;
        C::answer(Box::pin(async move { attempts::run(plan, conn).await }))
    }
}
