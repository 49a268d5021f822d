//! What the steps of a worker and its maintenance services share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use chrono::{TimeDelta, Utc};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::WorkerError;
use super::health_state::HealthState;
use super::heartbeat_state::HeartbeatState;
use super::idleness::Idleness;
use super::leases::Leases;
use super::live::Live;
use super::nothing_waits::NothingWaits;
use super::phases::Phases;
use super::queues::Queues;
use super::settings::Settings;
use super::stats::Counters;
use super::usual_durations::UsualDurations;
use super::work_tally::WorkTally;
use crate::context::JobContext;
use crate::handler::Registration;
use crate::installation::Installation;
use crate::lease::{ClaimedJob, WorkerId};
use crate::outcome::Keep;
use crate::progress::Reports;
use crate::recorder::Event;
use crate::registry::Registry;
use crate::states::States;
use crate::storage::refusals::Refusals;
use crate::storage::{Claim, DeclaredRules, Storage, StorageResult, WorkerInfo};
use crate::telemetry::RateLimitedWarning;

/// What the steps share.
pub(crate) struct Shared {
    pub(crate) storage: Arc<dyn Storage>,
    /// For how long the server has refused the credentials.
    pub(super) refusals: Arc<Refusals>,
    pub(crate) registry: Registry,
    pub(crate) states: Arc<States>,
    pub(crate) settings: Settings,
    /// The id under which this process is registered now.
    pub(crate) id: watch::Sender<WorkerId>,
    pub(crate) queues: Queues,
    /// What operators have set at run time.
    pub(crate) live: Arc<Live>,
    pub(crate) leases: Leases,
    /// Held for reading from the start of a claim until its leases are known here.
    pub(crate) claiming: tokio::sync::RwLock<()>,
    pub(super) nothing_waits: NothingWaits,
    /// A notification came for a queue that this worker may not know yet.
    pub(crate) discovery_requested: Notify,
    /// A claim failed, or a lease seems to be lost. So there may be valid leases that this process does not know. The
    /// reconciler must search for them.
    pub(crate) needs_reconcile: AtomicBool,
    /// Warns about transactional handlers that found no connection.
    pub(crate) no_connection: RateLimitedWarning,
    /// Whether the database was frozen at the last heartbeat.
    pub(crate) frozen: watch::Sender<bool>,
    /// Cancelled once the scheduler has enqueued all due ticks, or has found that the database is frozen.
    pub(crate) schedules_checked: CancellationToken,
    /// Quarantined jobs may be due. The fetcher tries to claim one.
    pub(crate) quarantined_due: AtomicBool,
    pub(crate) phases: Phases,
    pub(crate) heartbeat_state: HeartbeatState,
    pub(crate) health: HealthState,
    /// Whether this worker is idle, for its services.
    pub(crate) idleness: Idleness,
    /// A routine rescan is due: a claim was made, or the worker polled shortly after it set its idle flag. Both may
    /// have missed stragglers.
    pub(crate) routine_rescan_due: Notify,
    /// A rescan is needed soon: jobs were rescued or released, a tick was enqueued late, or a notification was followed
    /// by a claim without jobs.
    pub(crate) rescan_requested: Notify,
    /// An event in this process is a reason to claim.
    pub(crate) wake: Notify,
    /// The storage has sent a hint that there is work.
    pub(crate) hint: Arc<Notify>,
    /// A held job may be admitted: a limited job has ended here, or the storage has sent a hint. Such a hint may also
    /// say that an operator has changed a setting.
    pub(crate) admission: Arc<Notify>,
    pub(crate) counters: Counters,
    /// What was done since the history was written last.
    pub(crate) work: WorkTally,
    /// How long attempts usually take.
    pub(crate) usual_durations: UsualDurations,
    /// The tasks of the runners.
    pub(crate) runners: TaskTracker,
    /// What handlers have reported of their progress.
    pub(crate) reports: Arc<Reports>,
    /// Why the worker has ended by itself.
    pub(super) failure: Mutex<Option<WorkerError>>,
    /// How much time was skipped, in microseconds.
    pub(super) skipped: AtomicI64,
}

fn reports(registry: &Registry) -> Reports {
    let of_kind = |registration: &Registration| (registration.kind, registration.options.secrets);
    let secrets: HashMap<_, _> = registry.iter().map(of_kind).filter(|(_, names)| !names.is_empty()).collect();
    Reports::new(move |kind| secrets.get(kind).copied().unwrap_or_default())
}

impl Shared {
    /// The state of a worker that has not started.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        refusals: Arc<Refusals>,
        registry: Registry,
        states: States,
        settings: Settings,
    ) -> Self {
        let live = Arc::new(Live::new(&registry, settings.retention));
        let queues = Queues::new(&settings, live.clone(), registry.batches().collect());
        Self {
            queues,
            live,
            storage,
            refusals,
            usual_durations: UsualDurations::new(&registry),
            states: Arc::new(states),
            settings,
            id: watch::Sender::new(WorkerId::generate()),
            leases: Leases::default(),
            claiming: tokio::sync::RwLock::default(),
            nothing_waits: NothingWaits::default(),
            discovery_requested: Notify::new(),
            needs_reconcile: AtomicBool::new(false),
            no_connection: RateLimitedWarning::new("transact"),
            frozen: watch::Sender::new(false),
            schedules_checked: CancellationToken::new(),
            quarantined_due: AtomicBool::new(false),
            phases: Phases::default(),
            heartbeat_state: HeartbeatState::default(),
            health: HealthState::default(),
            idleness: Idleness::default(),
            routine_rescan_due: Notify::new(),
            rescan_requested: Notify::new(),
            wake: Notify::new(),
            hint: Arc::default(),
            admission: Arc::default(),
            counters: Counters::default(),
            work: WorkTally::default(),
            runners: TaskTracker::new(),
            reports: Arc::new(reports(&registry)),
            failure: Mutex::default(),
            skipped: AtomicI64::new(0),
            registry,
        }
    }

    /// A claim for as many jobs as may run or be prefetched now.
    pub(super) fn next_claim(&self) -> Claim {
        let quarantined_at = self.settings.rescue_policy(false).quarantined_at();
        let (wanted, most) = self.queues.wanted();
        Claim { quarantined_at, most, ..Claim::new(*self.id.borrow(), wanted, self.live.kinds()) }
    }

    /// Adds claimed jobs to the leases that this process holds. Returns the jobs that may run.
    pub(crate) fn take(&self, jobs: Vec<ClaimedJob>) -> Vec<JobContext> {
        let taken = Instant::now();
        let now = match self.skipped.load(Ordering::Relaxed) {
            0 => None,
            skipped => Some(Utc::now() + TimeDelta::microseconds(skipped)),
        };
        let context = |job: ClaimedJob| {
            let keep = match self.registry.get(&job.kind) {
                Some(registration) => self.live.kept(registration).completed,
                None => Keep::For(self.settings.retention.completed),
            };
            JobContext::of_worker(job, self.states.clone(), keep, now, &self.reports, taken)
        };
        let claimed = jobs.len();
        self.record_claim(&jobs);
        let jobs = self.leases.begin(jobs.into_iter().map(context).collect());
        if jobs.len() < claimed {
            // Some leases were left out. If a lease was granted a second time, its first attempt may have been
            // asked to stop. Then the reconciler releases the job. The jobs of an id that was declared dead are
            // rescued.
            self.needs_reconcile.store(true, Ordering::Release);
        }
        jobs
    }

    /// A claim has failed. The database may have carried it out, or may still do so.
    pub(super) fn claim_has_failed(&self) {
        self.needs_reconcile.store(true, Ordering::Release);
        self.idleness.claim_has_failed(Instant::now());
    }

    /// Reports a claim to the recorders. Neighbours of the same queue and kind make one event.
    fn record_claim(&self, jobs: &[ClaimedJob]) {
        let recorders = &self.settings.recorders;
        recorders.record(|| Event::Claimed { jobs: jobs.len() });
        if !recorders.is_empty() {
            for alike in jobs.chunk_by(|one, other| one.kind == other.kind && one.queue == other.queue) {
                let ClaimedJob { queue, kind, .. } = &alike[0];
                recorders.record(|| Event::Received { queue, kind, jobs: alike.len() });
            }
        }
    }

    /// Begins the shutdown of a worker that cannot go on. Its run returns the error.
    pub(super) fn end_with(&self, error: WorkerError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.phases.draining().cancel();
    }

    /// Asks running handlers to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.phases.stopping().cancel();
        self.leases.stop_all();
    }

    /// Registers this process under the id. Fails if the schema is not this program's, or if the database belongs to
    /// another environment. A claim returns nothing to a worker that is not registered. So both conditions still hold
    /// if another database takes the place of the first one while the worker runs.
    pub(crate) async fn register(&self, info: &WorkerInfo) -> StorageResult<Installation> {
        let installation = self.storage.check_schema().await?;
        installation.admit(self.settings.environment.as_deref())?;
        self.frozen.send_replace(installation.frozen.is_some());
        self.storage.register(info).await?;
        // What does not stand is offered again by the scheduler, which also warns.
        self.declare_rules().await?;
        self.health.registered();
        Ok(installation)
    }

    /// Offers the rules for discarded jobs of this program to the database.
    pub(crate) async fn declare_rules(&self) -> StorageResult<DeclaredRules> {
        self.storage.declare_discard_rules(&self.registry.kinds(), self.registry.discard_rules()).await
    }

    pub(crate) fn info(&self) -> WorkerInfo {
        WorkerInfo {
            id: *self.id.borrow(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            pid: std::process::id(),
            queues: self.settings.queues.keys().cloned().collect(),
            version: self.settings.program_version.clone(),
            slots: self.settings.queues.clone().into_iter().collect(),
            slots_total: self.settings.slots_total,
            kinds: self.registry.kinds(),
            schedules: self.registry.schedules(),
            discard_rules: self.registry.discard_rules().to_vec(),
            lease: self.settings.lease,
        }
    }
}
