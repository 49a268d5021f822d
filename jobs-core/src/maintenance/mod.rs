//! The services that every worker runs beside its jobs. Each service is safe to run on all workers at once: for each
//! row, the statement itself decides which worker acts. There is no leader that could fail.
//!
//! The table is about a worker with jobs. While the worker is idle, a service also waits until a poll has found work
//! for it, or an operator has changed something, or a number of polls is over: see `worker/idleness.rs`.
//!
//! | service | every | does |
//! |---|---|---|
//! | rescuer | a sixth of a lease, at most 5 s | frees the jobs of dead workers |
//! | reconciler | a sixth of a lease, at most 5 s | stops attempts whose lease is lost, releases jobs whose leases this process does not know |
//! | rescanner | 1 s; two polls if the worker is idle; up to 10 s if rescans take long | finds stragglers |
//! | discoverer | 1 s or one poll, and at notifications of unknown queues; only with patterns of queues | finds the queues that fit |
//! | scheduler | the next tick, at most 5 s; 60 s if there is no schedule | enqueues due ticks |
//! | long attempts | 10 s | logs attempts that take far longer than their kind's usually do |
//! | progress writer | 1 s, while handlers report progress | stores the newest report of each job |
//! | freeze watcher | each heartbeat | logs that the database was frozen or thawed |
//! | settings watcher | at most 900 ms, until the worker drains | follows what operators set at run time: pauses, slots, retention |
//! | admitter | 900 ms, at each end of a job with rules, at notifications; 5 s without rules | admits held jobs |
//! | history writer | the end of each minute, and the shutdown | stores what this worker did |
//! | chores | 60 s, the first time after 5 to 10 s, at once in a brief worker | delete finished jobs whose retention is over, join and delete old rows of the history |
//! | | 5 s; without a pause while there is one | do batches of actions on all jobs that match a filter |
//! | | 100 times as long as a count takes, at least 15 s | count all jobs, one worker at a time; it logs which due jobs no live worker runs |

mod admitter;
mod chores;
pub(crate) mod discoverer;
mod ended_waiting;
mod freeze_watcher;
mod history_writer;
mod long_attempts;
mod pause;
mod progress_writer;
pub(crate) mod reconciler;
mod rescanner;
mod rescuer;
mod scheduler;
pub(crate) mod settings_watcher;
mod unserved;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::installation::Freeze;
use crate::worker::shared::Shared;

/// How long a shutdown waits for the current steps of the services.
const STOP: Duration = Duration::from_secs(2);

pub(crate) struct Maintenance {
    services: TaskTracker,
    stop: CancellationToken,
}

/// Starts all services. They continue while the worker drains, so that its own leases stay valid. `frozen` is the
/// freeze that the worker found at its start. A `brief` worker may end within a second, so it does its chores at once.
pub(crate) fn start(shared: &Arc<Shared>, frozen: Option<Freeze>, brief: bool) -> Maintenance {
    let services = TaskTracker::new();
    let stop = CancellationToken::new();
    services.spawn(rescuer::run(shared.clone(), stop.clone(), brief));
    services.spawn(reconciler::run(shared.clone(), stop.clone()));
    tokio::spawn(rescanner::run(shared.clone()));
    tokio::spawn(discoverer::run(shared.clone()));
    services.spawn(scheduler::run(shared.clone(), stop.clone()));
    services.spawn(long_attempts::run(shared.clone(), stop.clone()));
    services.spawn(progress_writer::run(shared.clone(), stop.clone()));
    services.spawn(freeze_watcher::run(shared.clone(), frozen, stop.clone()));
    services.spawn(admitter::run(shared.clone(), stop.clone()));
    services.spawn(history_writer::run(shared.clone(), stop.clone()));
    chores::all(shared, &stop, brief).for_each(|chore| drop(services.spawn(chore)));
    services.close();
    Maintenance { services, stop }
}

impl Maintenance {
    /// Stops all services, each after its current step.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = tokio::time::timeout(STOP, self.services.wait()).await;
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
