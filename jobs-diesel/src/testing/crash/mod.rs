//! `crash_everywhere`: crashes a transactional handler at each of its statements, lets it run again, and compares.

mod connection;
mod contents;
#[cfg(feature = "postgres")]
mod pg;
#[cfg(feature = "postgres-sync")]
mod pg_sync;
mod point;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use diesel_jobs_core::secrets::redacted;
use diesel_jobs_core::testing::calls;
use diesel_jobs_core::{
    ClaimedJob, Handled, IntoNewJob, JobContext, JobError, Layer, Layers, Registered, Registry, States,
};

pub use connection::CrashConnection;
pub use contents::Contents;
pub use point::CrashPoint;

use super::store::{AsTestConnection, TestConnection};
use super::waiting::Among;
use super::{layered, perform, stuck};

/// A test that crashes a handler at each of its statements. See [`crash_everywhere`].
#[must_use = "call `on`"]
pub struct CrashEverywhere<J> {
    job: J,
    states: Vec<Insert>,
    layers: Layers,
    observe: Option<Observe>,
    time_limit: Option<Duration>,
}

type Insert = Box<dyn Fn(&mut States) + Send + Sync>;
type Observe = Box<dyn Fn(&JobContext) -> String + Send + Sync>;

/// What differs after a crash and a second run. `Debug` prints the same text as `Display`, so that `unwrap` shows it.
pub struct CrashReport(String);

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CrashReport {}

impl From<diesel::result::Error> for CrashReport {
    fn from(error: diesel::result::Error) -> Self {
        Self(format!("the connection of the test failed: {error}"))
    }
}

impl<J: Registered> fmt::Debug for CrashEverywhere<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashEverywhere").field("kind", &J::KIND).finish_non_exhaustive()
    }
}

/// Checks that a crash of the worker at any statement of a handler changes nothing about the final result.
///
/// The test first runs the handler of this job without a crash. Then, for each of its statements, it simulates a crash
/// of the worker at this statement, rolls back, and runs the handler again. The last crash is between the end of the
/// handler and the commit. After each second run, three things must be the same as without a crash: the application's
/// tables, the enqueued jobs, and the result of [`observe`](CrashEverywhere::observe).
///
/// The transaction protects writes through the handler's own connection. This test finds effects outside of it, such as
/// those in a state, in a file or through another connection: a second run may repeat them, or may skip its work
/// because of them.
///
/// The handler must take the connection. Everything is rolled back at the end.
pub fn crash_everywhere<J: Registered>(job: J) -> CrashEverywhere<J> {
    CrashEverywhere { job, states: Vec::new(), layers: Layers::default(), observe: None, time_limit: None }
}

impl<J: Registered + IntoNewJob> CrashEverywhere<J> {
    /// Gives the handler a value for `State<T>`. Each crash and the run after it share one clone of the value.
    pub fn state<T: Clone + Send + Sync + 'static>(self, value: T) -> Self {
        self.state_with(move || value.clone())
    }

    /// Gives the handler a value for `State<T>` that `make` returns. A run with a crash and the run after it share one
    /// value; for the next statement, `make` is called again.
    pub fn state_with<T: Send + Sync + 'static>(mut self, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        self.states.push(Box::new(move |states| states.insert(make())));
        self
    }

    /// Adds a layer, as `WorkerBuilder::layer` does, which all runs share. `before` is called in every run, and `after`
    /// or `error` only in runs that do not crash.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.add(layer);
        self
    }

    /// Also compares what this function returns for the state `T`, such as the number of calls that a fake has
    /// received. The values are compared by their `Debug` output, so collections must have a fixed order.
    pub fn observe<T, V>(mut self, observe: impl Fn(&T) -> V + Send + Sync + 'static) -> Self
    where
        T: Send + Sync + 'static,
        V: fmt::Debug,
    {
        self.observe = Some(Box::new(move |ctx| match ctx.state::<T>() {
            Some(state) => format!("{:?}", observe(state)),
            None => format!("there is no state of the type {}", std::any::type_name::<T>()),
        }));
        self
    }

    /// Sets how long each run may take. A plain `fn` cannot be stopped: at the limit, a message is printed, and the
    /// test continues to wait. Default: 30 s, or the timeout of the kind if that is shorter.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Runs the handler, and returns the number of statements at which it crashed. The error names the statement of the
    /// crash, and what differs afterwards. A sync connection returns a `Result`, and an async connection returns a
    /// future of it. If the connection has an instrumentation, it is removed.
    pub fn on<C>(self, conn: &mut C) -> <C::Connection as TestConnection>::Answer<'_, Result<usize, CrashReport>>
    where
        C: AsTestConnection,
        C::Connection: CrashConnection,
        J: Send,
    {
        let conn = conn.as_test_connection();
        let prepared = self.prepare::<C::Connection>();
        <C::Connection as TestConnection>::answer(Box::pin(async move {
            let (runs, job) = prepared.map_err(|error| CrashReport(error.to_string()))?;
            runs.all(conn, job).await
        }))
    }

    fn prepare<C: TestConnection>(self) -> Result<(Runs<J>, ClaimedJob), JobError> {
        if J::REGISTRATION.connection.is_none() {
            let problem = "takes no connection, so there is no statement to crash at";
            return Err(JobError::msg(format!("the handler of `{}` {problem}", J::KIND)));
        }
        let Self { job, states, layers, observe, time_limit } = self;
        let limit = stuck::limit(time_limit, &J::REGISTRATION);
        let runs = Runs { states, layers, observe, limit, kind: std::marker::PhantomData };
        perform::check::<J, C>(&runs.layers.known(&runs.new_states()))?;
        Ok((runs, perform::claimed(job, 1, Utc::now(), None)?))
    }
}

struct Runs<J> {
    states: Vec<Insert>,
    layers: Layers,
    observe: Option<Observe>,
    limit: Duration,
    kind: std::marker::PhantomData<fn() -> J>,
}

impl<J: Registered> Runs<J> {
    fn new_states(&self) -> States {
        let mut states = States::default();
        self.states.iter().for_each(|insert| insert(&mut states));
        states
    }

    async fn all<C: CrashConnection>(self, conn: &mut C, job: ClaimedJob) -> Result<usize, CrashReport> {
        let expected = self.complete(conn, &job, 1, &Arc::new(self.new_states())).await?;
        let expected =
            expected.map_err(|error| CrashReport(format!("`{}` fails without a crash: {error}", J::KIND)))?;
        for statement in 1.. {
            let states = Arc::new(self.new_states());
            let point = CrashPoint::at(statement);
            conn.begin().await?;
            conn.instrument(Some(&point)).await;
            let crashed = self.run(conn, &job, &states, 1, true).await;
            conn.instrument(None).await;
            let crashed = crashed?;
            conn.roll_back().await?;
            let sql = point.statement();
            // If it has crashed, its result is the panic of the crash.
            if let (None, Err(error)) = (&sql, &crashed) {
                let error = self.without_secrets(&job, &states, error);
                let problem = format!("`{}` fails before its statement {statement}, without a crash: {error}", J::KIND);
                return Err(CrashReport(problem));
            }
            let place = match &sql {
                Some(sql) => format!("after a crash of `{}` at statement {statement} (`{sql}`) and a retry, ", J::KIND),
                None => format!("after a crash of `{}` before its commit and a retry, ", J::KIND),
            };
            let found = self.complete(conn, &job, 2, &states).await?;
            let found = found.map_err(|error| CrashReport(format!("{place}the retry fails: {error}")))?;
            if let Some(difference) = expected.difference(&found) {
                return Err(CrashReport(format!("{place}{difference}")));
            }
            if sql.is_none() {
                return Ok(statement - 1);
            }
        }
        Ok(usize::MAX)
    }

    /// Runs the handler without a crash, and rolls back. Returns what was there before the rollback.
    async fn complete<C: CrashConnection>(
        &self,
        conn: &mut C,
        job: &ClaimedJob,
        attempt: u16,
        states: &Arc<States>,
    ) -> Result<Result<Contents, String>, CrashReport> {
        conn.begin().await?;
        let contents = match self.run(conn, job, states, attempt, false).await? {
            Ok(_) => self.contents(conn, job, states).await.map(Ok),
            Err(error) => Ok(Err(self.without_secrets(job, states, &error))),
        };
        conn.roll_back().await?;
        contents
    }

    /// The error as a worker would store it.
    fn without_secrets(&self, job: &ClaimedJob, states: &Arc<States>, error: &JobError) -> String {
        calls::without_secrets(&context::<J>(job, states, 1), J::OPTIONS.secrets, error.to_string())
    }

    /// Runs the handler in a savepoint, which is rolled back if the handler fails. `crashes` says that the worker dies
    /// afterwards, so no layer is called then. If the handler does not end within the time limit, returns an error. Its
    /// last statement may then still wait, so the connection cannot be used any more.
    async fn run<C: TestConnection>(
        &self,
        conn: &mut C,
        job: &ClaimedJob,
        states: &Arc<States>,
        attempt: u16,
        crashes: bool,
    ) -> Result<Handled, CrashReport> {
        let ctx = context::<J>(job, states, attempt);
        let handled = match crashes {
            true => layered::crashing(conn, &J::REGISTRATION, ctx, &self.layers, self.limit).await,
            false => layered::call(conn, &J::REGISTRATION, ctx, &self.layers, self.limit).await,
        };
        handled.map_err(CrashReport)
    }

    async fn contents<C: CrashConnection>(
        &self,
        conn: &mut C,
        job: &ClaimedJob,
        states: &Arc<States>,
    ) -> Result<Contents, CrashReport> {
        let mut contents = conn.contents().await?;
        let waiting = conn.waiting(Among::All).await.map_err(|error| CrashReport(error.to_string()))?;
        let registry = Registry::linked();
        let rows = waiting.jobs.iter().map(|job| {
            let secrets = registry.get(&job.kind).map_or(&[][..], |registration| registration.options.secrets);
            format!("{} in queue {}: {}", job.kind, job.queue, redacted(&job.args, secrets))
        });
        contents.add("the waiting jobs", rows.collect());
        if let Some(observe) = &self.observe {
            contents.add("what is observed", vec![observe(&context::<J>(job, states, 1))]);
        }
        Ok(contents)
    }
}

fn context<J: Registered>(job: &ClaimedJob, states: &Arc<States>, attempt: u16) -> JobContext {
    let secrets = J::OPTIONS.secrets;
    let mut job = job.clone();
    (job.attempt, job.lease.number) = (attempt, attempt.into());
    let now = job.claimed_at;
    JobContext::for_test(job, states.clone(), now, secrets)
}
