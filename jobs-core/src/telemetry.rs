//! Every span and event of the worker, in one place, so that names and fields stay the same: `job.*` for the job at
//! hand, `worker.*` for the process, units in the names. Arguments never appear.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::{Instrument as _, Span, debug, debug_span, error, info, info_span, warn};

use crate::context::JobContext;
use crate::installation::{Freeze, Installation};
use crate::job::JobId;
use crate::lease::{ClaimedJob, Lease, WorkerId};
use crate::outcome::Transition;
use crate::storage::{Rescued, WorkerInfo};
use crate::storage_error::StorageError;
use crate::unknown_queue::UnknownQueue;

pub(crate) fn job_span(job: &ClaimedJob) -> Span {
    info_span!(
        target: "diesel_jobs",
        "job",
        job.id = job.lease.job.0,
        job.kind = job.kind,
        job.queue = job.queue,
        job.attempt = job.attempt,
        job.max_attempts = job.max_attempts,
    )
}

/// Runs a verb of the storage in a span of its own, which in the end has the time that it took. Where nobody listens it costs a look
/// at a flag.
pub(crate) async fn timed<T>(verb: &'static str, work: impl Future<Output = T>) -> T {
    let span = debug_span!(target: "diesel_jobs", "storage", storage.verb = verb, storage.ms = Empty);
    if span.is_disabled() {
        return work.await;
    }
    let begun = Instant::now();
    let answer = work.instrument(span.clone()).await;
    span.record("storage.ms", begun.elapsed().as_secs_f64() * 1000.0);
    answer
}

pub(crate) fn worker_started(info: &WorkerInfo, queues: &str) {
    info!(target: "diesel_jobs", { worker.id = %info.id, worker.pid = info.pid, worker.queues = queues }, "worker started");
}

/// What a worker that starts says about the database.
pub(crate) fn installation(found: &Installation, environment: Option<&str>) {
    if let Some(freeze) = &found.frozen {
        frozen(freeze);
    }
    if let (None, Some(name)) = (&found.environment, environment) {
        warn!(
            target: "diesel_jobs", { worker.environment = name }, "this worker belongs to the environment `{name}`, and the database has no name: a copy of it would be served elsewhere, \
             too. `worker environment set {name}` names it");
    }
}

pub(crate) fn frozen(freeze: &Freeze) {
    warn!(
        target: "diesel_jobs", { freeze.by = freeze.by,
        freeze.reason = freeze.reason }, "the database is {freeze}. Nothing is claimed and no schedule ticks until `worker thaw`; running jobs go on");
}

pub(crate) fn thawed() {
    info!(target: "diesel_jobs", "the database was thawed: jobs are claimed again");
}

pub(crate) fn unknown_queue(queue: &UnknownQueue, kinds: &[String]) {
    let (name, hint, kinds) = (&queue.name, queue.hint(), kinds.join(", "));
    warn!(
        target: "diesel_jobs", { worker.queue = name }, "queue `{name}` is served, and no job of this program goes there by default; {hint}. Jobs of these kinds run there if \
         they name it when they are enqueued: {kinds}. If it is meant, say so: `.declare_queue({name:?})`");
}

pub(crate) fn worker_draining(in_flight: usize, grace: Duration) {
    info!(target: "diesel_jobs", { worker.in_flight = in_flight, worker.grace_seconds = grace.as_secs_f64() }, "worker stops claiming and drains");
}

pub(crate) fn worker_gives_back(in_flight: usize) {
    warn!(target: "diesel_jobs", { worker.in_flight = in_flight }, "grace period is over: unfinished jobs are given back");
}

pub(crate) fn worker_stopped() {
    info!(target: "diesel_jobs", "worker stopped");
}

pub(crate) fn finished(kind: &str, lease: &Lease, transition: &Transition, ran: Duration) {
    let (id, verb, ms) = (lease.job.0, transition.verb(), ran.as_secs_f64() * 1e3);
    match transition {
        Transition::Retry { delay, failure } => {
            warn!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.run_ms = ms, job.retry_seconds = delay.as_secs_f64(), error.kind = %failure.kind }, "job {id} failed and will be retried: {}", failure.message);
        }
        Transition::Discard { failure, .. } => {
            error!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.run_ms = ms, error.kind = %failure.kind }, "job {id} failed for good and was discarded: {}", failure.message);
        }
        Transition::Complete(_) | Transition::Snooze(_) | Transition::Release | Transition::Cancel { .. } => {
            debug!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.run_ms = ms, job.transition = verb }, "job {id}: {verb}");
        }
    }
}

pub(crate) fn lease_lost(lease: &Lease, kind: &str, verb: &str) {
    warn!(
        target: "diesel_jobs", { job.id = lease.job.0,
        job.kind = kind,
        job.lease = lease.number }, "job {}: the attempt lost its lease, its `{verb}` was refused",
        lease.job);
}

pub(crate) fn row_locked(ctx: &JobContext, verb: &str, since: Duration) {
    let what = match ctx.is_completed_in() {
        true => "whether its `complete_in` was committed is looked up".to_owned(),
        false => format!("its `{verb}` is tried again"),
    };
    warn!(
        target: "diesel_jobs", { job.id = ctx.id().0,
        job.kind = ctx.kind(),
        job.locked_seconds = since.as_secs_f64() }, "job {}: another session or a prepared transaction has locked its row in `running`; {what} until the lock is gone \
         (`pg_prepared_xacts` lists prepared transactions)",
        ctx.id());
}

pub(crate) fn long_attempt(ctx: &JobContext, running: Duration, usual: Option<Duration>) {
    let (id, kind, queue, seconds) = (ctx.id(), ctx.kind(), ctx.queue(), running.as_secs());
    let usual = usual.map_or("unknown".to_owned(), |usual| format!("{usual:.1?}"));
    warn!(
        target: "diesel_jobs", { job.id = id.0,
        job.kind = kind,
        job.queue = queue,
        job.attempt = ctx.attempt(),
        job.run_seconds = seconds }, "job {id} in queue `{queue}`: this attempt has run for {seconds} s, far beyond what `{kind}` usually takes ({usual}); if \
         its handler hangs, `worker cancel {id}` ends it, and `timeout` on its `#[job]` or `--timeout` on the worker ends the next");
}

pub(crate) fn slot_kept(job: &ClaimedJob) {
    let ClaimedJob { lease, kind, queue, .. } = job;
    warn!(target: "diesel_jobs", { job.id = lease.job.0, job.kind = %kind, job.queue = %queue },
        "job {}: the attempt has ended, but its handler `{kind}` goes on and keeps a slot of queue `{queue}` until it returns; if all slots \
         are kept, nothing runs there. Make the handler end by its `timeout`, or restart the worker", lease.job);
}

pub(crate) fn unknown_commit(id: JobId, problem: &StorageError) {
    warn!(target: "diesel_jobs", { job.id = id.0 }, "job {id}: the database failed around the commit ({problem}); the lease decides what holds");
}

pub(crate) fn conflict(lease: Lease, run: u32, what: &str) {
    let id = lease.job;
    info!(target: "diesel_jobs", { job.id = id.0, job.run = run }, "job {id}: run {run} of this attempt was rolled back by {what}");
}

pub(crate) fn declared_dead(old: WorkerId, jobs: usize) {
    error!(
        target: "diesel_jobs", { worker.id = %old,
        worker.lost_leases = jobs }, "this worker was declared dead (its heartbeats came too late); its jobs run elsewhere, it goes on under a new id");
}

pub(crate) fn strays(worker: WorkerId, jobs: usize) {
    warn!(target: "diesel_jobs", { worker.id = %worker, worker.strays = jobs }, "gave back {jobs} jobs whose claim was never answered");
}

pub(crate) fn rescued(rescued: &Rescued) {
    if !rescued.returned.is_empty() {
        warn!(target: "diesel_jobs", { rescue.jobs = rescued.returned.len() }, "rescued {} jobs of dead workers", rescued.returned.len());
    }
    for id in &rescued.discarded {
        error!(target: "diesel_jobs", { job.id = id.0 }, "job {id} was discarded after its worker died with it; see `worker show {id}`");
    }
}

pub(crate) fn quarantined(job: &ClaimedJob) {
    let id = job.lease.job;
    warn!(
        target: "diesel_jobs", { job.id = id.0,
        job.kind = job.kind,
        job.queue = job.queue }, "job {id} was in several crashes: it runs alone now");
}

pub(crate) fn ticked(name: &str, jobs: usize) {
    debug!(target: "diesel_jobs", { schedule.name = name, schedule.jobs = jobs }, "schedule {name}: enqueued {jobs}");
}

pub(crate) fn schedule_unusable(name: &str, problem: &dyn std::fmt::Display) {
    error!(target: "diesel_jobs", { schedule.name = name }, "schedule {name} is not run: {problem}");
}

pub(crate) fn pruned(jobs: usize) {
    debug!(target: "diesel_jobs", { prune.jobs = jobs }, "pruned {jobs} finished jobs");
}

pub(crate) fn refused(verb: &str, problem: &StorageError) {
    error!(target: "diesel_jobs", "{verb}: {problem}");
}

/// Says at most one line per ten seconds about a verb that keeps failing, and how often it was silent.
pub(crate) struct RateLimitedWarning {
    verb: &'static str,
    last: Mutex<Option<(Instant, u64)>>,
}

impl RateLimitedWarning {
    const QUIET: Duration = Duration::from_secs(10);

    pub(crate) const fn new(verb: &'static str) -> Self {
        Self { verb, last: Mutex::new(None) }
    }

    pub(crate) fn report(&self, problem: &StorageError) {
        let verb = self.verb;
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &mut *last {
            Some((at, silent)) if at.elapsed() < Self::QUIET => *silent += 1,
            _ => {
                let silent = last.map_or(0, |(_, silent)| silent);
                warn!(
                    target: "diesel_jobs", { storage.verb = verb,
                    storage.silent_failures = silent }, "{verb} failed and is tried again: {problem}");
                *last = Some((Instant::now(), 0));
            }
        }
    }
}
