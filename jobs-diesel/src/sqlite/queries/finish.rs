//! `finish`: moves jobs out of `running`, each only if its lease is still valid.

use std::collections::HashMap;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::{Finish, JobId, JobState, Keep, Lease, Transition};

use crate::sqlite::literal::{AVAILABLE, Literal, RUNNING, literal};
use crate::sqlite::queries::complete::{Alike, complete};
use crate::sqlite::queries::store_output::store_output;
use crate::sqlite::queries::{expiry, failures, limits, on_discarded};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{Now, NowPlus, after};
use crate::sqlite::types::Worker;

/// Moves these jobs out of `running`. Returns the jobs that were moved. All others have lost their lease.
pub(crate) fn finish(conn: &mut SqliteConnection, batch: &[Finish]) -> QueryResult<Vec<JobId>> {
    let mut moved = Vec::with_capacity(batch.len());
    let mut completed: HashMap<Alike, Vec<JobId>> = HashMap::new();
    for finish in batch {
        let Finish { lease, transition, .. } = finish;
        match transition {
            Transition::Complete(keep) | Transition::CompleteWith(keep, _) => {
                if let Some(output) = transition.output() {
                    store_output(conn, *lease, output)?;
                }
                let alike = Alike { worker: lease.worker, number: lease.number, keep: *keep };
                completed.entry(alike).or_default().push(lease.job);
            }
            transition => {
                // Before the finish, which deletes a job that is not kept.
                if let Transition::Discard { failure, .. } = transition
                    && is_valid(conn, *lease)?
                {
                    on_discarded::apply(conn, lease.job, failure)?;
                }
                moved.extend(finish_one(conn, finish)?.then_some(lease.job));
            }
        }
    }
    for (alike, jobs) in completed {
        moved.extend(complete(conn, alike, &jobs)?);
    }
    Ok(moved)
}

/// Moves one job out of `running`. The rules for discarded jobs are not applied. Returns `false` if the lease is lost.
/// Then nothing was written.
pub(crate) fn finish_one(conn: &mut SqliteConnection, finish: &Finish) -> QueryResult<bool> {
    let Finish { lease, flags, transition } = finish;
    let lease = *lease;
    if let Transition::Complete(Keep::Nothing)
    | Transition::CompleteWith(Keep::Nothing, _)
    | Transition::Cancel { keep: Keep::Nothing, .. }
    | Transition::Discard { keep: Keep::Nothing, .. } = transition
    {
        if matches!(transition, Transition::Discard { .. }) && flags.is_in_sequence() {
            // A job that is discarded keeps its permit, which halts its sequence. A job that is deleted without a
            // discard does not.
            return Ok(end(conn, lease, JobState::Discarded, Keep::Forever)? && delete_ended(conn, lease)?);
        }
        return delete(conn, lease);
    }
    if let Some(output) = transition.output() {
        store_output(conn, lease, output)?;
    }
    if let Some(failure) = transition.failure() {
        if !is_valid(conn, lease)? {
            return Ok(false);
        }
        failures::record(conn, lease.job, failure)?;
    }
    match transition {
        Transition::Complete(keep) | Transition::CompleteWith(keep, _) => end(conn, lease, JobState::Completed, *keep),
        Transition::Cancel { keep, .. } => end(conn, lease, JobState::Cancelled, *keep),
        Transition::Discard { keep, .. } => end(conn, lease, JobState::Discarded, *keep),
        Transition::Retry { delay, .. } => wait_again(conn, finish, Some(after(*delay)), 0),
        Transition::Snooze(delay) => wait_again(conn, finish, Some(after(*delay)), 1),
        Transition::Release => wait_again(conn, finish, None, 1),
    }
}

/// Whether the lease is valid.
pub(crate) fn is_valid(conn: &mut SqliteConnection, lease: Lease) -> QueryResult<bool> {
    diesel::select(diesel::dsl::exists(held(lease))).get_result(conn)
}

/// Selects the job under this lease: one row or none. Every statement by which a worker moves a single job out of
/// `running` uses this condition. `complete` has the same condition for many jobs.
#[diesel::dsl::auto_type(no_type_alias)]
pub(super) fn held(lease: Lease) -> _ {
    let worker: Worker = Worker(lease.worker);
    let job: i64 = lease.job.0;
    let number: i32 = lease.number;
    let running: Literal = RUNNING;
    jobs_job::table
        .filter(jobs_job::id.eq(job))
        .filter(jobs_job::lease.eq(number))
        .filter(jobs_job::worker.eq(worker))
        .filter(jobs_job::state.eq(running))
}

fn end(conn: &mut SqliteConnection, lease: Lease, state: JobState, keep: Keep) -> QueryResult<bool> {
    let expires_at = match keep {
        Keep::For(time) => Some(after(time)),
        Keep::Forever | Keep::Nothing => None,
    };
    let ended = (jobs_job::state.eq(literal(state)), jobs_job::finished_at.eq(Now.nullable()));
    let expiry = expires_at.map(|at| jobs_job::expires_at.eq(at.nullable()));
    Ok(diesel::update(held(lease)).set((ended, expiry)).execute(conn)? == 1)
}

fn delete(conn: &mut SqliteConnection, lease: Lease) -> QueryResult<bool> {
    let deleted = diesel::delete(held(lease)).execute(conn)? == 1;
    if deleted {
        failures::forget(conn, &[lease.job.0])?;
    }
    Ok(deleted)
}

fn delete_ended(conn: &mut SqliteConnection, lease: Lease) -> QueryResult<bool> {
    diesel::delete(jobs_job::table.find(lease.job.0)).execute(conn)?;
    failures::forget(conn, &[lease.job.0])?;
    Ok(true)
}

/// Moves the job back to `available`. Without `run_at`, its time stays the same, and a job with a limit keeps its
/// permit. `given_back` is subtracted from its attempts. If it snoozes, its crashes become 0, and it does not expire
/// any more.
fn wait_again(
    conn: &mut SqliteConnection,
    Finish { lease, flags, transition }: &Finish,
    run_at: Option<NowPlus>,
    given_back: i32,
) -> QueryResult<bool> {
    let snoozes = matches!(transition, Transition::Snooze(_));
    let has_time = run_at.is_some();
    let moved = diesel::update(held(*lease))
        .set((
            jobs_job::state.eq(AVAILABLE),
            jobs_job::attempt.eq(jobs_job::attempt - given_back),
            jobs_job::worker.eq(None::<Worker>),
            jobs_job::claimed_at.eq(None::<i64>),
            run_at.map(|at| jobs_job::run_at.eq(at)),
            snoozes.then_some(jobs_job::crashes.eq(0)),
        ))
        .execute(conn)?;
    if moved == 1 && snoozes && flags.expires() {
        expiry::no_more(conn, lease.job)?;
    }
    if moved == 1 && has_time && flags.is_limited() {
        limits::hold(conn, lease.job)?;
    }
    Ok(moved == 1)
}
