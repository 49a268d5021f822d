//! Configures a worker. `build` reports wrong settings before the first job is claimed.

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

/// Settings of a [`Worker`]; each has a default.
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
    /// Starts the configuration of a worker on a storage.
    pub fn builder(storage: Arc<dyn Storage>) -> WorkerBuilder {
        WorkerBuilder::new(storage)
    }
}

impl WorkerBuilder {
    /// How many jobs of one queue run at the same time, unless another number is set.
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

    /// The jobs that the worker can run. Default: all that are linked into the program.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Gives handlers a value, which they take as `State<T>` or with `ctx.state::<T>()`. There is one value per type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Calls this layer before and after each attempt. Layers that were added earlier are outside of it.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.add(layer);
        self
    }

    /// Reports what happens to this recorder, for metrics. There may be several.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorders.add(recorder);
        self
    }

    /// Serves this queue with this many slots, each of which runs one of its jobs at a time in this worker. A limit
    /// over all workers is [`Job::concurrency`](crate::Job::concurrency). If any queue is named, the worker serves only
    /// the named ones. Default: every queue that a registered job goes to.
    ///
    /// A queue that no job goes to by default is served, too: jobs may name it when they are enqueued, from code or
    /// SQL. The worker warns about such a queue at its start, unless the queue was [declared](Self::declare_queue).
    pub fn queue(mut self, name: impl Into<String>, slots: usize) -> Self {
        self.queues.insert(name.into(), Some(slots));
        self
    }

    /// Serves this queue with the usual number of [`slots`](Self::slots).
    pub fn serve(mut self, name: impl Into<String>) -> Self {
        self.queues.insert(name.into(), None);
        self
    }

    /// Removes all queues that were named so far.
    pub fn clear_queues(mut self) -> Self {
        self.queues.clear();
        self
    }

    /// Declares that a queue exists although no job goes there by default, because jobs name it when they are enqueued.
    /// The worker then does not take the name for a typing error, and starts without a warning.
    pub fn declare_queue(mut self, name: impl Into<String>) -> Self {
        self.declared.insert(name.into());
        self
    }

    /// How many jobs of one queue run at the same time, for queues that are named without a number. Default: 16.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// How long an idle worker waits between two polls if nothing wakes it. Default: 3 s.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// How long running jobs may continue after the begin of a shutdown. Then they are released. Default: 8 s. Choose
    /// at least two seconds less than the time after which your platform kills the process.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The lease time: this long after the worker's last heartbeat, a rescue may make its jobs available again. At
    /// least 1 s. A heartbeat is sent every quarter of this time, and at least every 10 s. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long one attempt may take if its kind sets no timeout. An async handler notices this limit only when it
    /// yields. If the kind has its own `timeout`, the attempt ends at that limit in any case. Default: unlimited.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A job is discarded at this many counted crashes. After one crash fewer (but at least one), it is
    /// quarantined: it runs alone in its process, so that it is not discarded because of another job. Default: 3.
    pub fn max_crashes(mut self, max_crashes: u16) -> Self {
        self.max_crashes = max_crashes;
        self
    }

    /// How long ended jobs stay readable. A kind's `retain` overrides it for completed jobs. Default:
    /// `Retention::default()`.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// How long the history of the work is kept, from which charts are drawn. It has a few rows per hour, queue and
    /// kind. Default: 30 days.
    pub fn keep_history(mut self, time: Duration) -> Self {
        self.keep_history = time;
        self
    }

    /// How long completed jobs stay readable. A kind's `retain` overrides it. Default: 24 hours.
    pub fn retain_completed(mut self, time: Duration) -> Self {
        self.retention.completed = time;
        self
    }

    /// How long cancelled jobs stay readable. Default: 30 days.
    pub fn retain_cancelled(mut self, time: Duration) -> Self {
        self.retention.cancelled = time;
        self
    }

    /// How long discarded jobs stay readable. Default: 30 days.
    pub fn retain_discarded(mut self, time: Duration) -> Self {
        self.retention.discarded = time;
        self
    }

    /// The environment that this worker belongs to, such as `production`. `worker environment set` gives a database the
    /// name of an environment. Only workers with the same name serve it, so that other workers do not run
    /// the jobs of a copy. Default: none.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = Some(environment.into());
        self
    }

    /// The version of the program, which `worker workers` and the dashboard show, such as `env!("CARGO_PKG_VERSION")`
    /// or a commit. Default: none. [`diesel_jobs::worker!`] sets that of the package that calls it.
    ///
    /// [`diesel_jobs::worker!`]: https://docs.rs/diesel-jobs/latest/diesel_jobs/macro.worker.html
    pub fn program_version(mut self, version: impl Into<String>) -> Self {
        self.program_version = Some(version.into());
        self
    }

    /// Checks the settings and the registered jobs, as far as that needs no database.
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
