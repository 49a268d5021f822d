//! A worker, from its start to the end of its shutdown.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::bounds::{Bounds, Later};
use super::completer::Completer;
use super::error::WorkerError;
use super::settings::Settings;
use super::shared::Shared;
use super::shutdown::{self, WorkerHandle};
use super::stats::WorkerStats;
use super::{fetcher, heartbeat};
use crate::crash_point::crash_point;
use crate::error::NoRuntime;
use crate::maintenance::{self, discoverer, reconciler, settings_watcher};
use crate::panics;
use crate::registry::Registry;
use crate::states::States;
use crate::storage::refusals::Refusals;
use crate::storage::{Storage, Waiting};
use crate::storage_error::StorageError;
use crate::telemetry;
use crate::unknown_queue::UnknownQueue;

/// A worker that is ready to run.
pub struct Worker {
    shared: Arc<Shared>,
    unknown_queues: Vec<UnknownQueue>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("queues", &self.shared.settings.queues).finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        refusals: Arc<Refusals>,
        registry: Registry,
        states: States,
        settings: Settings,
        unknown_queues: Vec<UnknownQueue>,
    ) -> Self {
        Self { unknown_queues, shared: Arc::new(Shared::new(storage, refusals, registry, states, settings)) }
    }

    /// Returns a handle to stop and inspect the worker from another task or thread.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle::new(self.shared.clone())
    }

    /// The jobs that the worker can run.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The environment that the worker belongs to.
    pub fn environment(&self) -> Option<&str> {
        self.shared.settings.environment.as_deref()
    }

    /// The queues and patterns of queues that the worker serves, sorted.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.shared.settings.queues.keys().map(String::as_str)
    }

    /// The queues that the worker serves although they are the default queue of no registered job and were not
    /// declared, sorted. Their names may be misspelled.
    pub fn unknown_queues(&self) -> &[UnknownQueue] {
        &self.unknown_queues
    }

    /// The same, for a caller that reports them itself. The worker then does not warn about them.
    #[doc(hidden)]
    pub fn take_unknown_queues(&mut self) -> Vec<UnknownQueue> {
        std::mem::take(&mut self.unknown_queues)
    }

    /// Runs until `signal` is ready or the [handle](Self::handle) begins a shutdown, and then drains: the worker claims
    /// no more jobs, and running jobs may continue for the grace period. Jobs that have not finished by then are
    /// released, and their run does not count as an attempt.
    ///
    /// It also drains after the server has refused the credentials of every new connection for five minutes, and then
    /// returns [`StorageError::Credentials`], so that a supervisor can start the process again with other ones.
    ///
    /// A handler that never returns does not keep this function from returning, within about ten seconds after the
    /// grace period, and a warning names its job. If it is a plain `fn`, it has a thread for which nothing waits when
    /// the process ends. An `async fn` that blocks keeps a thread of the runtime, and dropping the runtime waits for
    /// it: a program that must end regardless calls `Runtime::shutdown_background`.
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Result<(), WorkerError> {
        self.run(None, signal).await
    }

    /// Runs until nothing is left.
    pub(super) async fn run_within(self, bounds: Bounds) -> Result<WorkerStats, WorkerError> {
        let shared = self.shared.clone();
        self.run(Some(bounds), std::future::pending()).await?;
        Ok(shared.counters.snapshot())
    }

    async fn run(self, until_empty: Option<Bounds>, signal: impl Future<Output = ()>) -> Result<(), WorkerError> {
        NoRuntime::check()?;
        panics::install_hook();
        let shared = self.shared;
        let info = shared.info();
        let installation = shared.register(&info).await?;
        // Read before the first claim, so that it does not ask for paused kinds.
        settings_watcher::read(&shared).await?;
        // Before the first claim, whose rescan finds jobs that have waited for long.
        match discoverer::find(&shared, Waiting::Available { within: Duration::MAX }).await {
            // This storage has no patterns.
            Err(problem @ StorageError::Config(_)) => return Err(problem.into()),
            // The discoverer tries again.
            Err(problem) => telemetry::refused("waiting_queues", &problem),
            Ok(_) => {}
        }
        for queue in &self.unknown_queues {
            telemetry::unknown_queue(queue, &shared.registry.kinds());
        }
        crash_point("registered");
        let _stop = shutdown::StopOnDrop::new(&shared);
        let completer = Completer::start(&shared);
        let heartbeat =
            heartbeat::start(&shared, info.queues.clone(), &completer.reporter()).map_err(WorkerError::Thread)?;
        telemetry::worker_started(&info, &shared.settings.queues_text());
        telemetry::panics();
        telemetry::installation(&installation, shared.settings.environment.as_deref());

        let brief = matches!(until_empty, Some(Bounds { later: Later::Leave, .. }));
        let maintenance = maintenance::start(&shared, installation.frozen, brief);
        tokio::spawn(settings_watcher::run(shared.clone(), completer.reporter()));
        let fetcher = tokio::spawn(fetcher::run(shared.clone(), completer.reporter(), until_empty));

        tokio::select! {
            () = signal => {}
            () = shared.phases.draining().cancelled() => {}
        }
        let drained = shutdown::drain(&shared, fetcher).await;
        completer.flush(drained.until).await;
        maintenance.stop().await;
        drop(heartbeat);
        crash_point("deregister");
        let (id, left) = (*shared.id.borrow(), shared.leases.count());
        // Without its row, no other worker would know that it was stopping, and a rescue would count a crash on the
        // jobs that are left.
        if left > 0 {
            telemetry::not_deregistered(left);
        } else if let Err(problem) = reconciler::release_at_end(&shared).await {
            telemetry::refused("leases", &problem);
        } else if drained.may_still_claim {
            telemetry::may_still_claim();
        } else if let Err(problem) = shared.storage.deregister(id).await {
            telemetry::refused("deregister", &problem);
        }
        telemetry::worker_stopped();
        match shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
