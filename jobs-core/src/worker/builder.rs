//! The settings of a worker. The file `build.rs` reports invalid settings before any job is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::run::Worker;
use super::settings::Settings;
use crate::layer::{Layer, Layers};
use crate::outcome::Retention;
use crate::recorder::{Recorder, Recorders};
use crate::registry::Registry;
use crate::states::States;
use crate::storage::Storage;

/// Builds a [`Worker`]. Every setting has a default.
#[must_use = "a builder does nothing until `build`"]
pub struct WorkerBuilder {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) registry: Option<Registry>,
    pub(super) states: States,
    pub(super) layers: Layers,
    pub(super) recorders: Recorders,
    pub(super) queues: BTreeMap<String, Option<usize>>,
    pub(super) declared: BTreeSet<String>,
    pub(super) slots: usize,
    pub(super) slots_total: Option<usize>,
    pub(super) poll: Duration,
    pub(super) early_polls: Duration,
    pub(super) refused_for: Duration,
    pub(super) grace: Duration,
    pub(super) lease: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) max_crashes: u16,
    pub(super) retention: Retention,
    pub(super) keep_history: Duration,
    pub(super) environment: Option<String>,
    pub(super) program_version: Option<String>,
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
            slots_total: None,
            poll: Settings::POLL,
            early_polls: Settings::EARLY_POLLS,
            refused_for: Settings::REFUSED_FOR,
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
    ///
    /// A name with a `*` is a pattern, and serves each queue that fits with this many slots: `tenant-*` serves
    /// `tenant-7`, and `*` serves every queue. The `*` stands for any characters, and a pattern has only one. If
    /// several names fit a queue, the most specific one says how many slots it has: its own name, else the pattern with
    /// the longest text before the `*`. A queue that appears while the worker runs is found within about a second, and
    /// one that has had no jobs for a minute is forgotten until it has jobs again.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use diesel_jobs_core::{Worker, storage::Storage};
    /// # fn example(storage: Arc<dyn Storage>) {
    /// let worker = Worker::builder(storage).queue("mail", 8).queue("tenant-*", 2).slots_total(64);
    /// # }
    /// ```
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

    /// Sets how many jobs this worker runs at once in all its queues together, from 1 to 100,000. Each queue keeps its
    /// own number of slots as a maximum. If jobs are due in several queues, the queues take turns, so none waits for
    /// ever. Such a worker claims a job only when a slot is free for it, so with very short jobs it runs fewer of them
    /// per second, and a handler of batches gets smaller batches unless it waits for more jobs. Default: no limit but
    /// those of the queues.
    pub fn slots_total(mut self, slots: usize) -> Self {
        self.slots_total = Some(slots);
        self
    }

    /// Sets how long an idle worker waits between two polls if nothing wakes it earlier. At least 1 ms. Default: 3 s.
    ///
    /// With more than 10 s, an idle worker on PostgreSQL also sends its heartbeats only after its polls, and notices
    /// only then that another worker is dead. So with five minutes it sends less than one statement per minute, which
    /// suits a database that bills its activity. A job whose notification is lost waits as long, and the jobs of a
    /// worker that is killed wait for its lease, the poll interval and 5 s if all other workers are idle.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// Sets how long a worker that has become idle polls more frequently. Tests need not wait for the default, 20 s.
    #[doc(hidden)]
    pub fn early_polls(mut self, time: Duration) -> Self {
        self.early_polls = time;
        self
    }

    /// Sets for how long the server must refuse the credentials until the worker ends. Tests need not wait for the
    /// default, five minutes.
    #[doc(hidden)]
    pub fn refused_for(mut self, time: Duration) -> Self {
        self.refused_for = time;
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
}
