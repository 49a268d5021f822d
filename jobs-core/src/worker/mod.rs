//! The worker: claims jobs, runs their handlers, finishes them. One step of the flow per file.
//!
//! ```text
//! fetcher ── claim ──▶ in hand ──▶ runner (a task per slot) ──▶ executor ── finish ──▶ completer ── batches ──▶ storage
//!    ▲ room, hints, timers                     leases lost ──▶ attempt        heartbeat: own thread, own connection
//! ```

mod attempt;
mod builder;
mod bustle;
mod completer;
mod conflicts;
mod executor;
mod fetcher;
mod heartbeat;
mod leases;
mod locked;
mod pace;
mod panics;
mod queues;
mod runner;
mod settings;
mod shutdown;
mod stats;
mod suspect;
mod threads;
mod unknown_queue;
mod usual;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use crate::context::{JobContext, States};
use crate::crash_point::crash_point;
use crate::error::{NoRuntime, StorageError};
use crate::installation::Installation;
use crate::job::Retain;
use crate::lease::{ClaimedJob, WorkerId};
use crate::maintenance;
use crate::registry::{Registry, RegistryError};
use crate::storage::{Storage, StorageResult, WorkerInfo};
use crate::telemetry::{self, Trouble};

pub use builder::WorkerBuilder;
pub(crate) use heartbeat::Pulse;
pub(crate) use settings::Settings;
pub use shutdown::WorkerHandle;
pub use stats::WorkerStats;
pub use unknown_queue::UnknownQueue;

use completer::Completer;
use leases::Leases;
use queues::Queues;
use shutdown::Phases;
use stats::Counters;
use usual::Usual;

/// Why a worker did not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The registered jobs cannot be run.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Nothing drives the worker's futures.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// A setting out of bounds.
    #[error("{0}")]
    Setting(String),
    /// The database is not reachable or not ready.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The operating system refused the heartbeat its thread.
    #[error("could not start the heartbeat's thread: {0}")]
    Thread(std::io::Error),
}

crate::debug_as_display!(WorkerError);

/// A worker that is ready to run.
pub struct Worker {
    shared: Arc<Shared>,
    unknown_queues: Vec<UnknownQueue>,
}

/// What the steps share.
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) registry: Registry,
    pub(crate) states: Arc<States>,
    pub(crate) settings: Settings,
    /// The id under which this process is registered at the moment.
    pub(crate) id: watch::Sender<WorkerId>,
    pub(crate) queues: Queues,
    pub(crate) leases: Leases,
    /// Held from a claim to the moment its leases are known here.
    pub(crate) claiming: tokio::sync::Mutex<()>,
    /// A claim failed or a lease was taken for lost: some may stand that nobody here knows of. The auditor looks.
    pub(crate) doubt: AtomicBool,
    /// Transactional handlers that found no connection.
    pub(crate) no_connection: Trouble,
    /// Jobs are due that must run alone.
    pub(crate) suspects: AtomicBool,
    pub(crate) phases: Phases,
    pub(crate) pulse: Pulse,
    /// A claim was made, or a look shortly after falling asleep: what it may have passed by is looked for.
    pub(crate) claimed: Notify,
    /// Jobs came back to their old places.
    pub(crate) came_back: Notify,
    /// There is a reason to claim that this process knows of.
    pub(crate) wake: Notify,
    /// The storage's hints that there is work.
    pub(crate) hint: Arc<Notify>,
    pub(crate) counters: Counters,
    /// What attempts usually take.
    pub(crate) usual: Usual,
    /// Runners.
    pub(crate) executors: TaskTracker,
}

impl Shared {
    /// Counts claimed jobs as ours.
    pub(crate) fn take(&self, jobs: Vec<ClaimedJob>) -> Vec<JobContext> {
        let context = |job: ClaimedJob| {
            let retain =
                self.registry.get(&job.kind).map_or(Retain::Default, |registration| registration.options.retain);
            JobContext::keeping(job, self.states.clone(), retain.keep(self.settings.retention))
        };
        let claimed = jobs.len();
        let jobs = self.leases.begin(jobs.into_iter().map(context).collect());
        if jobs.len() < claimed {
            // Of a lease granted again the first holder may have been told that it is lost; then it is given back. The jobs of
            // an id that was declared dead are rescued.
            self.doubt.store(true, Ordering::Release);
        }
        jobs
    }

    /// Asks running handlers to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.phases.stopping().cancel();
        self.leases.stop_all();
    }

    /// Makes this process known under the id, unless the database belongs to another environment. A claim gives nothing to
    /// a worker that is not known: so what holds at the start holds, too, when another database takes the place of the first
    /// while the worker runs.
    pub(crate) async fn register(&self, info: &WorkerInfo) -> StorageResult<Installation> {
        let installation = self.storage.installation().await?;
        installation.admit(self.settings.environment.as_deref())?;
        self.storage.register(info).await?;
        Ok(installation)
    }

    pub(crate) fn info(&self) -> WorkerInfo {
        WorkerInfo {
            id: *self.id.borrow(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            pid: std::process::id(),
            queues: self.settings.queues.keys().cloned().collect(),
            lease: self.settings.lease,
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("queues", &self.shared.settings.queues).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts to put a worker together on a storage.
    pub fn builder(storage: Arc<dyn Storage>) -> WorkerBuilder {
        WorkerBuilder::new(storage)
    }

    fn new(
        storage: Arc<dyn Storage>,
        registry: Registry,
        states: States,
        settings: Settings,
        unknown_queues: Vec<UnknownQueue>,
    ) -> Self {
        let queues = Queues::new(&settings.queues);
        Self {
            unknown_queues,
            shared: Arc::new(Shared {
                storage,
                usual: Usual::new(&registry),
                registry,
                states: Arc::new(states),
                settings,
                id: watch::Sender::new(WorkerId::generate()),
                queues,
                leases: Leases::default(),
                claiming: tokio::sync::Mutex::default(),
                doubt: AtomicBool::new(false),
                no_connection: Trouble::new("transact"),
                suspects: AtomicBool::new(false),
                phases: Phases::default(),
                pulse: Pulse::default(),
                claimed: Notify::new(),
                came_back: Notify::new(),
                wake: Notify::new(),
                hint: Arc::default(),
                counters: Counters::default(),
                executors: TaskTracker::new(),
            }),
        }
    }

    /// A handle to stop the worker and to look at it from elsewhere.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle::new(self.shared.clone())
    }

    /// The jobs it can run.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The environment that it belongs to.
    pub fn environment(&self) -> Option<&str> {
        self.shared.settings.environment.as_deref()
    }

    /// The queues it serves, sorted.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.shared.settings.queues.keys().map(String::as_str)
    }

    /// The queues it serves although no registered job goes there by default and nobody declared them, sorted.
    pub fn unknown_queues(&self) -> &[UnknownQueue] {
        &self.unknown_queues
    }

    /// The same for a caller that says it in its own words: the worker then says nothing.
    #[doc(hidden)]
    pub fn take_unknown_queues(&mut self) -> Vec<UnknownQueue> {
        std::mem::take(&mut self.unknown_queues)
    }

    /// Runs until `signal` is ready or the handle says so, then drains: no more claims, running jobs get the grace
    /// period, what is unfinished goes back without losing an attempt.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Result<(), WorkerError> {
        self.run(false, signal).await
    }

    /// Runs until no job of its queues and kinds waits, now or later, and none of its own is running. For tests, tools
    /// and one-off runs.
    pub async fn run_until_empty(self) -> Result<WorkerStats, WorkerError> {
        let shared = self.shared.clone();
        self.run(true, std::future::pending()).await?;
        Ok(shared.counters.snapshot())
    }

    async fn run(self, until_empty: bool, signal: impl Future<Output = ()>) -> Result<(), WorkerError> {
        NoRuntime::check()?;
        panics::install_hook();
        let shared = self.shared;
        shared.storage.check_schema().await?;
        for queue in &self.unknown_queues {
            telemetry::unknown_queue(queue, &shared.registry.kinds());
        }
        let info = shared.info();
        let installation = shared.register(&info).await?;
        crash_point("registered");
        let _stop = shutdown::StopOnDrop::new(&shared);
        let heartbeat = heartbeat::start(&shared).map_err(WorkerError::Thread)?;
        telemetry::worker_started(&info, &shared.settings.queues_text());
        telemetry::installation(&installation, shared.settings.environment.as_deref());

        let completer = Completer::start(&shared);
        let listener = {
            let (shared, stop) = (shared.clone(), shared.phases.draining().clone());
            let queues = info.queues.clone();
            tokio::spawn(async move { shared.storage.listen(&queues, shared.hint.clone(), stop).await })
        };
        let maintenance = maintenance::start(&shared, installation.frozen);
        let fetcher = tokio::spawn(fetcher::run(shared.clone(), completer.reporter(), until_empty));

        tokio::select! {
            () = signal => {}
            () = shared.phases.draining().cancelled() => {}
        }
        shutdown::drain(&shared, fetcher).await;
        completer.flush().await;
        maintenance.stop().await;
        listener.abort();
        drop(heartbeat);
        crash_point("deregister");
        let id = *shared.id.borrow();
        if let Err(problem) = shared.storage.deregister(id).await {
            telemetry::refused("deregister", &problem);
        }
        telemetry::worker_stopped();
        Ok(())
    }
}
