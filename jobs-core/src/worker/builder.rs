//! The settings of a worker. `build` reports invalid settings before any job is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::error::WorkerError;
use super::run::Worker;
use super::settings::Settings;
use crate::installation::check_words;
use crate::layer::{Layer, Layers};
use crate::outcome::Retention;
use crate::recorder::{Recorder, Recorders};
use crate::registry::Registry;
use crate::states::States;
use crate::storage::Storage;
use crate::storage::instrumented::Instrumented;
use crate::unknown_queue::UnknownQueue;

/// Builds a [`Worker`]. Every setting has a default.
#[must_use = "a builder does nothing until `build`"]
pub struct WorkerBuilder {
    storage: Arc<dyn Storage>,
    registry: Option<Registry>,
    states: States,
    layers: Layers,
    recorders: Recorders,
    queues: BTreeMap<String, Option<usize>>,
    declared: BTreeSet<String>,
    slots: usize,
    poll: Duration,
    grace: Duration,
    lease: Duration,
    timeout: Option<Duration>,
    max_crashes: u16,
    retention: Retention,
    keep_history: Duration,
    environment: Option<String>,
    program_version: Option<String>,
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl Worker {
    /// Returns a builder for a worker on this storage.
    pub fn builder(storage: Arc<dyn Storage>) -> WorkerBuilder {
        WorkerBuilder::new(storage)
    }
}

impl WorkerBuilder {
    /// The default number of slots of a queue.
    pub const DEFAULT_SLOTS: usize = 16;

    fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            registry: None,
            states: States::default(),
            layers: Layers::default(),
            recorders: Recorders::default(),
            queues: BTreeMap::new(),
            declared: BTreeSet::new(),
            slots: Self::DEFAULT_SLOTS,
            poll: Settings::POLL,
            grace: Settings::GRACE,
            lease: Settings::LEASE,
            timeout: None,
            max_crashes: Settings::MAX_CRASHES,
            retention: Retention::default(),
            keep_history: Settings::KEEP_HISTORY,
            environment: None,
            program_version: None,
        }
    }

    /// Sets the jobs that the worker can run. Default: all jobs that are linked into the program.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Shares a value with all handlers, which take it as `State<T>` or read it with `ctx.state::<T>()`. There is one
    /// value per type: a later call replaces an earlier one.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Adds a layer, which is called before and after each attempt. Layers that were added earlier wrap those that are
    /// added later.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.add(layer);
        self
    }

    /// Adds a recorder, which receives an [`Event`](crate::Event) for everything that happens, for metrics. Several
    /// calls add several recorders.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorders.add(recorder);
        self
    }

    /// Serves this queue with this many slots, from 1 to 100,000. Each slot runs one job at a time in this worker; to
    /// limit the jobs that run at once across all workers, use [`Job::concurrency`](crate::Job::concurrency). If you
    /// name any queue, the worker serves only the queues that you name. Default: the default queues of all registered
    /// jobs, and those that were [declared](Self::declare_queue).
    ///
    /// The worker also serves a queue that is the default of no registered job, because jobs may name that queue when
    /// they are enqueued from code or SQL. It logs a warning about such a queue when it starts, in case the name is
    /// misspelled. To avoid the warning, [declare](Self::declare_queue) the queue.
    pub fn queue(mut self, name: impl Into<String>, slots: usize) -> Self {
        self.queues.insert(name.into(), Some(slots));
        self
    }

    /// Serves this queue with the default number of [`slots`](Self::slots). See [`queue`](Self::queue).
    pub fn serve(mut self, name: impl Into<String>) -> Self {
        self.queues.insert(name.into(), None);
        self
    }

    /// Removes all queues that were named so far with [`queue`](Self::queue) and [`serve`](Self::serve).
    pub fn clear_queues(mut self) -> Self {
        self.queues.clear();
        self
    }

    /// Declares a queue that is the default of no registered job, because jobs name it when they are enqueued. The
    /// worker then does not warn that its name may be misspelled. If no queues are named with [`queue`](Self::queue) or
    /// [`serve`](Self::serve), declared queues are served, too.
    pub fn declare_queue(mut self, name: impl Into<String>) -> Self {
        self.declared.insert(name.into());
        self
    }

    /// Sets the number of slots of every queue that is not given its own number, from 1 to 100,000. Default: 16.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// Sets how long an idle worker waits between two polls if nothing wakes it earlier. At least 1 ms. Default: 3 s.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// Sets the grace period: how long running jobs may continue after a shutdown begins. Jobs that are still running
    /// at its end are asked to stop, and are released. Choose at least two seconds less than the time after which your
    /// platform kills the process. Default: 8 s.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace = period;
        self
    }

    /// Sets the lease time. If the worker sends no heartbeat for this long, other workers may declare it dead and make
    /// its jobs available again. The worker sends a heartbeat every quarter of the lease time, but at least every 10 s.
    /// At least 1 s. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long one attempt may take if its kind has no `timeout` of its own. This limit can end an async handler
    /// only when the handler yields, whereas the `timeout` of a kind ends the attempt even if its handler never yields.
    /// More than zero. Default: unlimited.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the number of counted crashes at which a job is discarded. After one crash fewer, but at least one, the job
    /// is quarantined: it then runs alone in its process, so that it is not discarded because of a crash that another
    /// job caused. At least 1. Default: 3.
    pub fn max_crashes(mut self, max_crashes: u16) -> Self {
        self.max_crashes = max_crashes;
        self
    }

    /// Sets how long ended jobs stay readable. The `retain` of a kind overrides it for completed jobs. Default: 24
    /// hours for completed jobs, and 30 days for cancelled and discarded ones.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long the history from which charts are drawn is kept. It takes a few rows per hour, queue and kind. At
    /// least one hour. Default: 30 days.
    pub fn keep_history(mut self, time: Duration) -> Self {
        self.keep_history = time;
        self
    }

    /// Sets how long completed jobs stay readable. The `retain` of a kind overrides it. Default: 24 hours.
    pub fn retain_completed(mut self, time: Duration) -> Self {
        self.retention.completed = time;
        self
    }

    /// Sets how long cancelled jobs stay readable. Default: 30 days.
    pub fn retain_cancelled(mut self, time: Duration) -> Self {
        self.retention.cancelled = time;
        self
    }

    /// Sets how long discarded jobs stay readable. Default: 30 days.
    pub fn retain_discarded(mut self, time: Duration) -> Self {
        self.retention.discarded = time;
        self
    }

    /// Sets the environment that this worker belongs to, such as `production`. If a database was given the name of an
    /// environment with `worker environment set`, only workers with the same name serve it. This keeps the workers of
    /// other environments from running the jobs in a copy of the database. Default: none.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = Some(environment.into());
        self
    }

    /// Sets the version of your program, such as `env!("CARGO_PKG_VERSION")` or a commit, which `worker workers` and
    /// the dashboard show. Default: none; [`diesel_jobs::worker!`] sets the version of the package that calls it.
    ///
    /// [`diesel_jobs::worker!`]: https://docs.rs/diesel-jobs/latest/diesel_jobs/macro.worker.html
    pub fn program_version(mut self, version: impl Into<String>) -> Self {
        self.program_version = Some(version.into());
        self
    }

    /// Builds the worker. This checks the settings and the registered jobs as far as it is possible without the
    /// database.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Setting`] if a setting is out of bounds, and [`WorkerError::Registry`] if the registered jobs
    /// cannot be run, for example because a handler takes a state that the worker was not given.
    pub fn build(self) -> Result<Worker, WorkerError> {
        let registry = self.registry.unwrap_or_else(Registry::linked);
        let storage = self.storage;
        registry.check(&self.layers.known(&self.states), |id| storage.provides(id), storage.name())?;
        let invalid = |problem: String| Err(WorkerError::Setting(problem));
        if self.lease < Duration::from_secs(1) {
            return invalid(format!("a lease of {:?} is too short to keep; use at least 1s", self.lease));
        }
        if self.poll < Duration::from_millis(1) {
            return invalid(format!("a poll interval of {:?} would never pause; use at least 1ms", self.poll));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid("a timeout of 0 would end every attempt at once; use at least 1ms".to_owned());
        }
        if self.keep_history < Duration::from_secs(3600) {
            return invalid(format!("a history of {:?} is too short to show; keep at least 1h", self.keep_history));
        }
        if self.max_crashes == 0 {
            return invalid("max_crashes = 0 would discard every job; use at least 1".to_owned());
        }
        if let Some(environment) = &self.environment {
            check_words("the worker's environment", environment).map_err(WorkerError::Setting)?;
        }
        if let Some(version) = &self.program_version {
            check_words("the program's version", version).map_err(WorkerError::Setting)?;
        }
        let known: BTreeSet<&str> =
            registry.queues().into_iter().chain(self.declared.iter().map(String::as_str)).collect();
        let mut queues = BTreeMap::new();
        let mut unknown = Vec::new();
        for (queue, slots) in &self.queues {
            if !known.contains(queue.as_str()) {
                unknown.push(UnknownQueue::new(queue, &known));
            }
            queues.insert(queue.clone(), slots.unwrap_or(self.slots));
        }
        if queues.is_empty() {
            queues = known.iter().map(|queue| ((*queue).to_owned(), self.slots)).collect();
        }
        if let Some((queue, _)) = queues.iter().find(|(_, slots)| **slots == 0 || **slots > 100_000) {
            return invalid(format!("queue `{queue}`: a queue has from 1 to 100000 slots"));
        }
        let settings = Settings {
            queues,
            poll: self.poll,
            grace: self.grace,
            lease: self.lease,
            timeout: self.timeout,
            max_crashes: self.max_crashes,
            retention: self.retention,
            keep_history: self.keep_history,
            environment: self.environment,
            layers: self.layers,
            program_version: self.program_version,
            recorders: self.recorders.clone(),
        };
        let storage = Arc::new(Instrumented::new(storage, self.recorders));
        Ok(Worker::new(storage, registry, self.states, settings, unknown))
    }
}
