//! Putting a worker together. What is wrong is said by `build`, before the first job is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::error::WorkerError;
use super::run::Worker;
use super::settings::Settings;
use crate::context::States;
use crate::installation::check_words;
use crate::outcome::Retention;
use crate::registry::Registry;
use crate::storage::Storage;
use crate::storage::instrumented::Instrumented;
use crate::unknown_queue::UnknownQueue;

/// Settings of a [`Worker`]; each has a default.
#[must_use = "a builder does nothing until `build`"]
pub struct WorkerBuilder {
    storage: Arc<dyn Storage>,
    registry: Option<Registry>,
    states: States,
    queues: BTreeMap<String, Option<usize>>,
    declared: BTreeSet<String>,
    concurrency: usize,
    poll: Duration,
    grace: Duration,
    lease: Duration,
    timeout: Option<Duration>,
    max_crashes: u16,
    retention: Retention,
    environment: Option<String>,
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts to put a worker together on a storage.
    pub fn builder(storage: Arc<dyn Storage>) -> WorkerBuilder {
        WorkerBuilder::new(storage)
    }
}

impl WorkerBuilder {
    /// Jobs of one queue that run at the same time, unless said otherwise.
    pub const DEFAULT_CONCURRENCY: usize = 16;

    fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            registry: None,
            states: States::default(),
            queues: BTreeMap::new(),
            declared: BTreeSet::new(),
            concurrency: Self::DEFAULT_CONCURRENCY,
            poll: Settings::POLL,
            grace: Settings::GRACE,
            lease: Settings::LEASE,
            timeout: None,
            max_crashes: Settings::MAX_CRASHES,
            retention: Retention::default(),
            environment: None,
        }
    }

    /// Which jobs it can run. Default: all that are linked into the program.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Gives handlers a value to take as `State<T>` or with `ctx.state::<T>()`; one per type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Serves this queue, running at most `concurrency` of its jobs at the same time. Naming one queue means serving
    /// only the named ones. Default: every queue that a registered job goes to. A queue that no job goes to by default is
    /// served, too, because jobs may name it when they are enqueued, from code or SQL; the worker warns of it when it
    /// starts, unless it was [declared](Self::declare_queue).
    pub fn queue(mut self, name: impl Into<String>, concurrency: usize) -> Self {
        self.queues.insert(name.into(), Some(concurrency));
        self
    }

    /// Serves this queue with the default concurrency.
    pub fn serve(mut self, name: impl Into<String>) -> Self {
        self.queues.insert(name.into(), None);
        self
    }

    /// Forgets the queues named so far.
    pub fn clear_queues(mut self) -> Self {
        self.queues.clear();
        self
    }

    /// Says that a queue exists although no job goes there by default, because jobs name it when they are enqueued.
    /// Serving it is then no typing error, and the worker starts without a warning.
    pub fn declare_queue(mut self, name: impl Into<String>) -> Self {
        self.declared.insert(name.into());
        self
    }

    /// Jobs of one queue at the same time, for queues named without a number. Default: 16.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long an idle worker waits between looks when nothing wakes it. Default: 3 s.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// How long running jobs may go on after a shutdown began, before they are given back. Default: 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long after its last heartbeat this worker's jobs may be given to others; at least 1 s. A heartbeat is sent
    /// every quarter of it, and every 10 s at least. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long one attempt may take where its kind does not say. An async handler that never yields notices such a limit only
    /// when it does yield; with a `timeout` of its own its kind's handler is left behind. Default: unlimited.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A job whose worker died with it this often is discarded; the last time it runs alone in its process, so that it pays for
    /// nobody else. Default: 3.
    pub fn max_crashes(mut self, max_crashes: u16) -> Self {
        self.max_crashes = max_crashes;
        self
    }

    /// How long finished jobs stay readable where their kind does not say otherwise.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// The environment that this worker belongs to, such as `production`. A database that was given a name by `worker environment
    /// set` is served by workers of the same name only, so that a copy of it is left alone elsewhere. Default: none.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = Some(environment.into());
        self
    }

    /// Checks everything that can be checked without the database.
    pub fn build(self) -> Result<Worker, WorkerError> {
        let registry = self.registry.unwrap_or_else(Registry::linked);
        let storage = self.storage;
        registry.check(&self.states, |id| storage.provides(id), storage.name())?;
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
        if self.max_crashes == 0 {
            return invalid("max_crashes = 0 would discard every job; use at least 1".to_owned());
        }
        if let Some(environment) = &self.environment {
            check_words("the worker's environment", environment).map_err(WorkerError::Setting)?;
        }
        let known: BTreeSet<&str> =
            registry.queues().into_iter().chain(self.declared.iter().map(String::as_str)).collect();
        let mut queues = BTreeMap::new();
        let mut unknown = Vec::new();
        for (queue, concurrency) in &self.queues {
            if !known.contains(queue.as_str()) {
                unknown.push(UnknownQueue::new(queue, &known));
            }
            queues.insert(queue.clone(), concurrency.unwrap_or(self.concurrency));
        }
        if queues.is_empty() {
            queues = known.iter().map(|queue| ((*queue).to_owned(), self.concurrency)).collect();
        }
        if let Some((queue, _)) = queues.iter().find(|(_, slots)| **slots == 0 || **slots > 100_000) {
            return invalid(format!("queue `{queue}`: concurrency must be from 1 to 100000"));
        }
        let settings = Settings {
            queues,
            poll: self.poll,
            grace: self.grace,
            lease: self.lease,
            timeout: self.timeout,
            max_crashes: self.max_crashes,
            retention: self.retention,
            environment: self.environment,
        };
        let storage = Arc::new(Instrumented(storage));
        Ok(Worker::new(storage, registry, self.states, settings, unknown))
    }
}
