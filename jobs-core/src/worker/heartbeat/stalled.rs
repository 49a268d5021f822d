//! Releases the jobs that wait in a process whose runtime is blocked by a handler. The fetcher, which otherwise
//! releases what waits too long, and the runners, which would start these jobs, are tasks of that runtime. Without
//! this, the jobs would wait as long as the handler blocks, while other workers have free slots.
//!
//! An attempt is withdrawn first. From then on no task can begin it, whenever the runtime goes on. A lease that this
//! process does not know yet is remembered as invalid first, with the same effect.

use std::collections::HashSet;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Line;
use crate::context::JobContext;
use crate::lease::Lease;
use crate::storage::{Finished, JobId, StorageResult};
use crate::telemetry::{self, RateLimitedWarning};
use crate::worker::report::{Report, WeakReporter};
use crate::worker::shared::Shared;

/// The runtime is blocked if an empty task waits for this long. A job waits in the process for at most about a quarter
/// of a second, unless its batch waits for others. If both take this long, other workers should have the job.
const BLOCKED_AFTER: Duration = Duration::from_secs(3);
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The jobs that were withdrawn and are not released yet.
pub(super) struct Stalled {
    withdrawn: Vec<JobContext>,
    reporter: WeakReporter,
    warning: RateLimitedWarning,
    /// The runtime of the worker.
    main: Handle,
    /// The newest empty task that was given to it, and when.
    probe: Option<(Instant, JoinHandle<()>)>,
    next_check: Instant,
}

impl Stalled {
    pub(super) fn new(reporter: WeakReporter, main: Handle) -> Self {
        let warning = RateLimitedWarning::new("finish");
        Self { withdrawn: Vec::new(), reporter, warning, main, probe: None, next_check: Instant::now() }
    }

    /// Waits until the runtime counts as blocked.
    pub(super) async fn until_blocked(&mut self) {
        loop {
            tokio::time::sleep_until(self.next_check).await;
            self.next_check = Instant::now() + CHECK_EVERY;
            if self.is_blocked() {
                return;
            }
            // After an error it is not known whether they were released. The completer finds out.
            self.hand_over(|_| true);
        }
    }

    fn is_blocked(&mut self) -> bool {
        match &self.probe {
            Some((since, task)) if !task.is_finished() => since.elapsed() >= BLOCKED_AFTER,
            _ => {
                self.probe = Some((Instant::now(), self.main.spawn(async {})));
                false
            }
        }
    }

    /// Releases the jobs that wait here. If this fails, the next call tries it again.
    pub(super) async fn release(&mut self, shared: &Shared, line: &mut Line) {
        self.withdrawn.extend(shared.queues.overdue(BLOCKED_AFTER));
        self.withdrawn.extend(shared.leases.withdraw(BLOCKED_AFTER));
        let released = match self.release_withdrawn(shared, line).await {
            Ok(()) => release_unknown(shared, line).await,
            Err(problem) => Err(problem),
        };
        if let Err(problem) = released {
            line.open = None;
            self.warning.report(&problem);
            if !problem.is_transient() {
                // One row that the database refuses must not keep the others. The completer releases them one by one.
                self.hand_over(|_| true);
            }
        }
    }

    /// If the database does not release a job, its lease is lost or its row is locked. The completer finds out which.
    async fn release_withdrawn(&mut self, shared: &Shared, line: &mut Line) -> StorageResult<()> {
        if self.withdrawn.is_empty() {
            return Ok(());
        }
        let leases: Vec<Lease> = self.withdrawn.iter().map(JobContext::lease).collect();
        let moved = line.connection(shared).await?.release(&leases).await?;
        let is_moved: HashSet<JobId> = moved.iter().copied().collect();
        let released = self.withdrawn.extract_if(.., |ctx| is_moved.contains(&ctx.id()));
        let reports: Vec<Report> = released.map(Report::release).collect();
        shared.written(&reports, Finished { moved, ..Finished::default() }, &HashSet::new(), false);
        self.hand_over(|ctx| leases.contains(&ctx.lease()));
        Ok(())
    }

    fn hand_over(&mut self, is_meant: impl Fn(&JobContext) -> bool) {
        let (meant, mut others): (Vec<_>, Vec<_>) = self.withdrawn.drain(..).partition(is_meant);
        others.extend(meant.into_iter().filter_map(|ctx| self.reporter.release(ctx).err()));
        self.withdrawn = others;
    }
}

/// The answer to a claim may have come while the runtime was blocked already. Then nothing here knows its jobs.
async fn release_unknown(shared: &Shared, line: &mut Line) -> StorageResult<()> {
    let is_claiming = shared.claiming.try_write().is_err();
    if !is_claiming {
        return Ok(());
    }
    let worker = *shared.id.borrow();
    // Before the database is asked: a job that ends meanwhile is known here, too.
    let held = shared.leases.held();
    let heartbeat = line.connection(shared).await?;
    let valid = heartbeat.leases().await?.into_iter().map(|(job, number)| Lease { job, number, worker });
    let unknown = shared.leases.invalidate_unknown(valid.filter(|lease| !held.contains(lease)).collect());
    if !unknown.is_empty() {
        let released = heartbeat.release(&unknown).await?;
        telemetry::released_unknown_leases(worker, released.len());
    }
    Ok(())
}
