//! All events of the worker, in one place, so that their names and fields stay consistent. The spans are in `spans`,
//! the warnings of operations that fail repeatedly in `rate_limited_warning`, the events of schedules in `schedules`,
//! and those of a run that ends by itself in `run_until_empty`. Fields `job.*` describe the job, and fields `worker.*`
//! the process. Names of quantities contain the unit. No field contains arguments of jobs.

mod rate_limited_warning;
mod refused_jobs;
mod run_until_empty;
mod schedules;
mod spans;

use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::asked::Asked;
use crate::context::JobContext;
use crate::error::JobError;
use crate::installation::{Freeze, Installation};
use crate::job_id::JobId;
use crate::lease::{ClaimedJob, Lease, WorkerId};
use crate::outcome::Transition;
use crate::shell::argument;
use crate::storage::{Finding, Rescued, WorkerInfo};
use crate::storage_error::StorageError;
use crate::unknown_queue::UnknownQueue;

pub(crate) use self::rate_limited_warning::RateLimitedWarning;
pub(crate) use self::refused_jobs::refused_jobs;
pub(crate) use self::run_until_empty::{no_slot_left, nothing_left, rescue_awaited, rescue_not_awaited, ticks_unknown};
pub(crate) use self::schedules::{schedule_stands_still, schedule_unusable, ticked, ticks_missed};
pub(crate) use self::spans::{batch_span, job_span, send_span, storage_span};

pub(crate) fn worker_started(info: &WorkerInfo, queues: &str) {
    info!(target: "diesel_jobs", { worker.id = %info.id, worker.pid = info.pid, worker.queues = queues }, "worker started");
}

/// Warns if a panic ends the process.
pub(crate) fn panics() {
    // Cargo compiles all crates of a program with the setting of its profile, so that of this crate is the program's.
    if cfg!(panic = "abort") {
        warn!(target: "diesel_jobs", "this program is compiled with `panic = \"abort\"`: a job that panics ends the worker with all of its jobs, and each of them loses an attempt; \
             remove the setting from the worker's profile in Cargo.toml");
    }
}

/// Logs the freeze of the database, or that it has no environment, when a worker starts.
pub(crate) fn installation(found: &Installation, environment: Option<&str>) {
    if let Some(freeze) = &found.frozen {
        frozen(freeze);
    }
    if let (None, Some(name)) = (&found.environment, environment) {
        warn!(
            target: "diesel_jobs", { worker.environment = name }, "this worker belongs to the environment `{name}`, but the database has no name, so workers of any environment would also \
             run the jobs of a copy. `worker environment set {}` names the database", argument(name));
    }
}

pub(crate) fn frozen(freeze: &Freeze) {
    warn!(
        target: "diesel_jobs", { freeze.by = freeze.by,
        freeze.reason = freeze.reason }, "the database is {freeze}. Nothing is claimed and no schedule ticks until `worker thaw`; running jobs continue");
}

pub(crate) fn thawed() {
    info!(target: "diesel_jobs", "the database was thawed: jobs are claimed again");
}

/// Logs when the number of jobs and keys that admission leaves out changes from or to 0. Returns this number.
pub(crate) fn left_out(before: i64, now: Option<i64>) -> i64 {
    match now {
        Some(now) if now > 0 && before == 0 => warn!(
            target: "diesel_jobs", { left_out = now },
            "admission has failed for {now} of the jobs and keys of limits. It will try them again, and the others continue. `worker doctor` says why"),
        Some(0) if before > 0 => info!(target: "diesel_jobs", "admission has recovered: no job and no key is left out"),
        _ => {}
    }
    now.unwrap_or(before)
}

pub(crate) fn asked(asked: Asked) {
    match asked {
        Asked::Quiet => {
            warn!(target: "diesel_jobs", "an operator asked this worker to be quiet: it stops claiming jobs, and its running jobs continue")
        }
        Asked::Stop => warn!(target: "diesel_jobs", "an operator asked this worker to stop"),
    }
}

/// `what` is a queue or a kind.
pub(crate) fn pauses_changed(what: &str, paused: &[&str], resumed: &[&str]) {
    for name in paused {
        warn!(target: "diesel_jobs", "{what} `{name}` is paused: this worker claims none of its jobs until it is resumed; running jobs continue");
    }
    for name in resumed {
        info!(target: "diesel_jobs", "{what} `{name}` was resumed: its jobs are claimed again");
    }
}

pub(crate) fn slots_changed(queue: &str, slots: usize) {
    info!(target: "diesel_jobs", { worker.queue = queue, worker.slots = slots }, "queue `{queue}` has {slots} slots in this worker from now on");
}

pub(crate) fn unknown_queue(queue: &UnknownQueue, kinds: &[String]) {
    let (name, hint, kinds) = (&queue.name, queue.hint(), kinds.join(", "));
    warn!(
        target: "diesel_jobs", { worker.queue = name }, "queue `{name}` is served, and no job of this program goes there by default; {hint}. Jobs of these kinds run there if \
         the enqueue names this queue: {kinds}. If the name is right, declare it: `.declare_queue({name:?})`");
}

pub(crate) fn worker_draining(in_flight: usize, grace: Duration) {
    info!(target: "diesel_jobs", { worker.in_flight = in_flight, worker.grace_seconds = grace.as_secs_f64() }, "worker stops claiming and drains");
}

pub(crate) fn grace_period_over(in_flight: usize) {
    warn!(target: "diesel_jobs", { worker.in_flight = in_flight }, "the grace period is over: unfinished jobs are released");
}

pub(crate) fn credentials_refused(problem: &str) {
    error!(target: "diesel_jobs", { error = problem }, "every database operation fails, so the worker ends: {problem}");
}

pub(crate) fn not_deregistered(jobs: usize) {
    error!(target: "diesel_jobs", { worker.in_flight = jobs }, "stopped before the ends of all attempts could be written (left: {jobs}): another worker frees these jobs when this worker's lease is over, and counts a crash for each of them unless the database already knows that this worker is stopping");
}

pub(crate) fn may_still_claim() {
    warn!(target: "diesel_jobs", "the last claim got no answer, so the database may still execute it: another worker frees its jobs, and removes this worker, when the lease of this one is over");
}

pub(crate) fn worker_stopped() {
    info!(target: "diesel_jobs", "worker stopped");
}

pub(crate) fn finished(ctx: &JobContext, transition: &Transition, ran: Duration) {
    let (id, kind, name) = (ctx.id().0, ctx.kind(), transition.name());
    let (attempt, most) = (ctx.attempt(), ctx.max_attempts());
    // In whole microseconds. A product of floats would have fifteen digits.
    let ms = ran.as_micros() as f64 / 1e3;
    match transition {
        Transition::Retry { delay, failure } => {
            warn!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.attempt = attempt, job.max_attempts = most, job.run_ms = ms, job.retry_seconds = delay.as_secs_f64(), error.kind = %failure.kind }, "job {id} failed and will be retried: {}", failure.message);
        }
        Transition::Discard { failure, .. } => {
            error!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.attempt = attempt, job.max_attempts = most, job.run_ms = ms, error.kind = %failure.kind }, "job {id} failed permanently and was discarded: {}", failure.message);
        }
        Transition::CompleteWith(_, output) if output.note().is_some() => {
            let note = output.note().unwrap_or_default();
            warn!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.run_ms = ms, job.transition = name }, "job {id} completed, but its output was not stored: {note}");
        }
        Transition::Complete(_)
        | Transition::CompleteWith(..)
        | Transition::Snooze(_)
        | Transition::Release
        | Transition::Cancel { .. } => {
            debug!(target: "diesel_jobs", { job.id = id, job.kind = kind, job.run_ms = ms, job.transition = name }, "job {id}: {name}");
        }
    }
}

pub(crate) fn lease_lost(lease: &Lease, kind: &str, refused: &str) {
    warn!(
        target: "diesel_jobs", { job.id = lease.job.0,
        job.kind = kind,
        job.lease = lease.number }, "job {}: the attempt lost its lease, its `{refused}` was refused",
        lease.job);
}

pub(crate) fn cancelled(ctx: &JobContext, by: Option<&str>) {
    let (id, by) = (ctx.id(), by.unwrap_or("an operator"));
    warn!(
        target: "diesel_jobs", { job.id = id.0,
        job.kind = ctx.kind(),
        job.cancelled_by = by }, "job {id} was cancelled by {by}: the attempt stops");
}

pub(crate) fn row_locked(ctx: &JobContext, transition: &str, since: Duration) {
    let what = match ctx.is_completed_in() {
        true => "the worker checks whether its `complete_in` was committed,".to_owned(),
        false => format!("the worker keeps retrying its `{transition}`"),
    };
    warn!(
        target: "diesel_jobs", { job.id = ctx.id().0,
        job.kind = ctx.kind(),
        job.locked_seconds = since.as_secs_f64() }, "job {}: another session or a prepared transaction has locked its row in `running`; {what} until the lock is released \
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
        job.run_seconds = seconds }, "job {id} in queue `{queue}`: this attempt has run for {seconds} s, far longer than `{kind}` usually takes ({usual}); if \
         its handler hangs, `worker cancel {id}` ends it, and a `timeout` in its `#[job]` or `--timeout` of the worker ends later ones");
}

/// The worker ends, and the handler was asked to stop.
pub(crate) fn handler_left(job: &ClaimedJob) {
    let ClaimedJob { lease, kind, queue, .. } = job;
    warn!(target: "diesel_jobs", { job.id = lease.job.0, job.kind = %kind, job.queue = %queue },
        "job {}: its handler `{kind}` has not returned, and the worker ends without it. If it is a plain `fn`, its thread ends with the process. If \
         it is an `async fn`, it blocks a thread of the Tokio runtime: a program that drops the runtime waits for it, and \
         `Runtime::shutdown_background` does not", lease.job);
}

pub(crate) fn slot_kept(job: &ClaimedJob) {
    let ClaimedJob { lease, kind, queue, .. } = job;
    warn!(target: "diesel_jobs", { job.id = lease.job.0, job.kind = %kind, job.queue = %queue },
        "job {}: the attempt has ended, but its handler `{kind}` continues and keeps a slot of queue `{queue}` until it returns; if all slots \
         are kept, nothing runs there. Make the handler end by its `timeout`, or restart the worker", lease.job);
}

pub(crate) fn layer_failed(ctx: &JobContext, layer: &str, hook: &str, problem: &JobError) {
    let (id, kind) = (ctx.id(), ctx.kind());
    error!(target: "diesel_jobs", { job.id = id.0, job.kind = kind, layer.name = layer, layer.hook = hook }, "job {id}: `{hook}` of the layer `{layer}` failed, and the job continues without it: {problem:#}");
}

pub(crate) fn recorder_failed(problem: &JobError) {
    error!(target: "diesel_jobs", "a recorder failed, and its metrics miss an event: {problem:#}");
}

pub(crate) fn interrupted(id: JobId, error: &str) {
    warn!(target: "diesel_jobs", { job.id = id.0 }, "job {id}: the connection of its transaction was closed ({error}); the job is released, and no attempt is consumed");
}

pub(crate) fn unknown_commit(id: JobId, problem: &dyn std::fmt::Display) {
    warn!(target: "diesel_jobs", { job.id = id.0 }, "job {id}: the database failed around the commit ({problem}); a finish that names the lease finds out whether it was committed");
}

pub(crate) fn conflict(leases: &[Lease], run: u32, what: &str) {
    let Some(id) = leases.first().map(|lease| lease.job) else { return };
    match leases.len() {
        1 => {
            info!(target: "diesel_jobs", { job.id = id.0, job.run = run }, "job {id}: run {run} of this attempt was rolled back by {what}");
        }
        jobs => {
            info!(target: "diesel_jobs", { job.id = id.0, job.run = run, batch.jobs = jobs }, "job {id} and {} others of its batch: run {run} of this attempt was rolled back by {what}", jobs - 1);
        }
    }
}

pub(crate) fn batch_runs_again(kind: &str, lost: usize, jobs: usize) {
    info!(target: "diesel_jobs", { job.kind = kind, batch.lost = lost, batch.jobs = jobs }, "a batch of `{kind}` was rolled back because {lost} leases were lost in the meantime; it runs again with the other {jobs} jobs");
}

pub(crate) fn declared_dead(old: WorkerId, jobs: usize) {
    error!(
        target: "diesel_jobs", { worker.id = %old,
        worker.lost_leases = jobs }, "this worker was declared dead (its heartbeats came too late); its jobs run elsewhere, and it continues under a new id");
}

pub(crate) fn released_unknown_leases(worker: WorkerId, jobs: usize) {
    warn!(target: "diesel_jobs", { worker.id = %worker, worker.unknown_leases = jobs }, "released {jobs} jobs of claims whose replies were lost");
}

pub(crate) fn rescued(rescued: &Rescued) {
    if !rescued.returned.is_empty() {
        warn!(target: "diesel_jobs", { rescue.jobs = rescued.returned.len() }, "rescued {} jobs of dead workers", rescued.returned.len());
    }
    if !rescued.released.is_empty() {
        let jobs = rescued.released.len();
        warn!(target: "diesel_jobs", { rescue.released = jobs }, "released {jobs} jobs of workers that were killed while they were stopping, and no attempt is consumed; give \
             workers at least 2 s more than `--grace-period` to stop, or shorten `--grace-period`");
    }
    for id in &rescued.discarded {
        error!(target: "diesel_jobs", { job.id = id.0 }, "job {id} was discarded after its worker died with it; see `worker show {id}`");
    }
}

pub(crate) fn quarantined_job_starts(job: &ClaimedJob) {
    let id = job.lease.job;
    warn!(
        target: "diesel_jobs", { job.id = id.0,
        job.kind = job.kind,
        job.queue = job.queue }, "job {id} is quarantined after its crashes: it now runs alone in its process");
}

pub(crate) fn pruned(jobs: usize) {
    debug!(target: "diesel_jobs", { prune.jobs = jobs }, "pruned {jobs} finished jobs");
}

pub(crate) fn not_counted(reason: &str) {
    debug!(target: "diesel_jobs", "the jobs are not counted at the moment: {reason}");
}

/// Due jobs whose queue no live worker serves, or whose kind none of those that serve it knows.
pub(crate) fn unserved(Finding { what, repair, .. }: &Finding) {
    warn!(target: "diesel_jobs", "{what}. To repair it: {repair}");
}

pub(crate) fn refused(operation: &str, problem: &StorageError) {
    error!(target: "diesel_jobs", "{operation}: {problem}");
}
