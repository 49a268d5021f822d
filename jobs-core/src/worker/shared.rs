//! What the steps of a worker, and the services beside it, share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};
use tokio_util::task::TaskTracker;

use super::leases::Leases;
use super::phases::Phases;
use super::pulse::Pulse;
use super::queues::Queues;
use super::settings::Settings;
use super::stats::Counters;
use super::usual::Usual;
use crate::context::{JobContext, States};
use crate::installation::Installation;
use crate::job_options::Retain;
use crate::lease::{ClaimedJob, WorkerId};
use crate::registry::Registry;
use crate::storage::{Storage, StorageResult, WorkerInfo};
use crate::telemetry::RateLimitedWarning;

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
    /// A claim failed or a lease was taken for lost: some may stand that nobody here knows of. The reconciler looks.
    pub(crate) needs_reconcile: AtomicBool,
    /// Transactional handlers that found no connection.
    pub(crate) no_connection: RateLimitedWarning,
    /// Whether the database was frozen at the last heartbeat.
    pub(crate) frozen: watch::Sender<bool>,
    /// Jobs are due that must run alone.
    pub(crate) quarantined: AtomicBool,
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
    /// Of a worker that has not begun.
    pub(super) fn new(storage: Arc<dyn Storage>, registry: Registry, states: States, settings: Settings) -> Self {
        Self {
            queues: Queues::new(&settings.queues),
            storage,
            usual: Usual::new(&registry),
            registry,
            states: Arc::new(states),
            settings,
            id: watch::Sender::new(WorkerId::generate()),
            leases: Leases::default(),
            claiming: tokio::sync::Mutex::default(),
            needs_reconcile: AtomicBool::new(false),
            no_connection: RateLimitedWarning::new("transact"),
            frozen: watch::Sender::new(false),
            quarantined: AtomicBool::new(false),
            phases: Phases::default(),
            pulse: Pulse::default(),
            claimed: Notify::new(),
            came_back: Notify::new(),
            wake: Notify::new(),
            hint: Arc::default(),
            counters: Counters::default(),
            executors: TaskTracker::new(),
        }
    }

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
            self.needs_reconcile.store(true, Ordering::Release);
        }
        jobs
    }

    /// Asks running handlers to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.phases.stopping().cancel();
        self.leases.stop_all();
    }

    /// Makes this process known under the id, unless the schema is not this program's, or the database belongs to another environment. A claim gives nothing to
    /// a worker that is not known: so what holds at the start holds, too, when another database takes the place of the first
    /// while the worker runs.
    pub(crate) async fn register(&self, info: &WorkerInfo) -> StorageResult<Installation> {
        let installation = self.storage.check_schema().await?;
        installation.admit(self.settings.environment.as_deref())?;
        self.frozen.send_replace(installation.frozen.is_some());
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
