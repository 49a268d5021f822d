//! `rescue`: frees the jobs of workers whose lease ran out.
//!
//! It also deletes the worker's row. So a worker that resumes later is not registered any more, and its leases are
//! refused. Every rescue also frees running jobs whose worker has no row at all: see [`RescuePolicy::orphans`].
//!
//! If the worker was draining, its jobs are released: see [`RescuePolicy::decide`].
//!
//! If a worker had several jobs, it is unknown which of them caused the crash. So a job is discarded for its crashes
//! only if it was the only job of its worker.
//!
//! If the file refuses to move a job, the rescue notes it in `jobs_admission_failure`, and leaves it out until the time
//! that is stored there. So it stops no other. Its worker's row stays, too, and `had_others` says to a later rescue
//! whether the worker had other jobs.

use std::collections::{HashMap, HashSet};

use diesel::SqliteConnection;
use diesel::dsl::{exists, not, sql};
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_jobs_core::storage::{
    Crashed, CrashedAttempt, KILLED_TOO_OFTEN, RUNS_ALONE, RescueDecision, RescuePolicy, Rescued, WAS_KILLED,
};
use diesel_jobs_core::{Failure, FailureKind, JobId, JobState, WorkerId};

use crate::flags::FlagsKnown;
use crate::sqlite::literal::{AVAILABLE, Literal, RUNNING, literal};
use crate::sqlite::queries::admission_failure::{forget_job, jobs_left_out, note};
use crate::sqlite::queries::keys::Key;
use crate::sqlite::queries::{failures, on_discarded, retention};
use crate::sqlite::schema::{jobs_job, jobs_worker};
use crate::sqlite::time::{Now, micros};
use crate::sqlite::types::{Instant, Worker, count};

/// Whether quarantined jobs are due. Only reads.
pub(crate) fn quarantined_due(conn: &mut SqliteConnection, policy: RescuePolicy) -> QueryResult<bool> {
    let due = jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE))
        // A literal, because with a bind SQLite could not use the partial index.
        .filter(sql::<Bool>("crashes > 0"))
        .filter(jobs_job::crashes.ge(i32::from(policy.quarantined_at())))
        .filter(jobs_job::run_at.le(Now))
        .filter(FlagsKnown("jobs_job"));
    diesel::select(exists(due)).get_result(conn)
}

/// Whether a worker is dead, or a running job has no worker. Only reads.
pub(crate) fn is_needed(conn: &mut SqliteConnection) -> QueryResult<bool> {
    Ok(diesel::select(exists(dead())).get_result(conn)? || diesel::select(exists(orphans())).get_result(conn)?)
}

/// Whether the rescuer's own row is missing, or looks older than it can be or than its lease. Then the clock has
/// jumped, this machine was suspended, or heartbeats wait for something, and no worker is declared dead. The row may
/// hold a newer heartbeat than `rescuer.beat`: a rescue tries for seconds to get the write lock, and heartbeats are
/// stored meanwhile.
fn holds_off(conn: &mut SqliteConnection, policy: RescuePolicy) -> QueryResult<bool> {
    let Some(rescuer) = policy.rescuer else { return Ok(false) };
    let own = jobs_worker::table
        .filter(jobs_worker::id.eq(Worker(rescuer.worker)))
        .filter(jobs_worker::heartbeat_at.ge(Instant(rescuer.beat)))
        .filter((jobs_worker::heartbeat_at + micros(rescuer.age)).ge(Now))
        .filter((jobs_worker::heartbeat_at + jobs_worker::lease_micros).ge(Now));
    Ok(!diesel::select(exists(own)).get_result::<bool>(conn)?)
}

pub(crate) fn rescue(conn: &mut SqliteConnection, policy: RescuePolicy) -> QueryResult<Rescued> {
    if holds_off(conn, policy)? {
        return Ok(Rescued { held_off: true, ..Rescued::default() });
    }
    let dead: Vec<DeadWorker> = dead().select(DeadWorker::as_select()).load(conn)?;
    let lost = lost(conn, &dead)?;
    let mut rescued = Rescued::default();
    let mut jobs_of_worker = HashMap::<_, usize>::new();
    lost.iter().for_each(|job| *jobs_of_worker.entry(job.worker_id()).or_default() += 1);
    let left_out = jobs_left_out(conn)?;
    let (left, tried): (Vec<&Lost>, Vec<&Lost>) = lost.iter().partition(|job| left_out.contains(&job.id));
    let mut kept: HashSet<Option<WorkerId>> = left.into_iter().map(Lost::worker_id).collect();
    for job in tried {
        let (id, worker) = (JobId(job.id), job.worker_id());
        let died = dead.iter().find(|dead| Some(dead.id.0) == worker);
        let alone = jobs_of_worker[&worker] == 1 && !died.is_some_and(|worker| worker.had_others);
        let decision = match conn.transaction(|conn| free(conn, job, died, alone, policy)) {
            Ok(decision) => decision,
            Err(error) => {
                rescued.refuse(id, &job.kind, &job.queue, &error);
                note(conn, &Key::default(), Some(id), error)?;
                kept.insert(worker);
                continue;
            }
        };
        rescued.quarantined_due |= decision.quarantined;
        let list = match decision {
            RescueDecision { released: true, .. } => &mut rescued.released,
            RescueDecision { discard_reason: Some(_), .. } => &mut rescued.discarded,
            RescueDecision { discard_reason: None, .. } => &mut rescued.returned,
        };
        list.push(id);
        if decision.released {
            continue;
        }
        let (queue, kind) = (job.queue.clone(), job.kind.clone());
        rescued.attempts.push(CrashedAttempt { queue, kind, discarded: decision.discard_reason.is_some() });
    }
    for DeadWorker { id, .. } in dead {
        let (row, worker) = (jobs_worker::table.find(id), Some(id.0));
        if !kept.contains(&worker) {
            diesel::delete(row).execute(conn)?;
        } else if jobs_of_worker[&worker] > 1 {
            diesel::update(row).set(jobs_worker::had_others.eq(true)).execute(conn)?;
        }
    }
    Ok(rescued)
}

/// Decides about a job, and moves it.
fn free(
    conn: &mut SqliteConnection,
    job: &Lost,
    died: Option<&DeadWorker>,
    alone: bool,
    policy: RescuePolicy,
) -> QueryResult<RescueDecision> {
    let id = JobId(job.id);
    let kills = match died.and_then(|worker| worker.draining_at) {
        Some(_) => Some(failures::kills(conn, id)?),
        None => None,
    };
    let decision = policy.decide(Crashed { kills, ..job.crashed(alone) });
    let failure_kind = if decision.released { FailureKind::Killed } else { FailureKind::Crash };
    let failure = Failure::new(failure_kind, &job.failure_text(died, decision));
    failures::record(conn, id, &failure)?;
    match decision.discard_reason {
        Some(_) => {
            on_discarded::apply(conn, id, &failure)?;
            discard(conn, job, decision, policy)?;
        }
        None => wait_again(conn, job, decision)?,
    }
    forget_job(conn, id)?;
    Ok(decision)
}

/// The running jobs of these workers, and those whose worker has no row.
fn lost(conn: &mut SqliteConnection, dead: &[DeadWorker]) -> QueryResult<Vec<Lost>> {
    let dead: Vec<Worker> = dead.iter().map(|worker| worker.id).collect();
    let its_worker = jobs_worker::table.filter(jobs_worker::id.nullable().eq(jobs_job::worker));
    jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .filter(not(exists(its_worker)).nullable().or(jobs_job::worker.eq_any(dead)))
        .filter(FlagsKnown("jobs_job"))
        .order(jobs_job::id)
        .select(Lost::as_select())
        .load(conn)
}

#[diesel::dsl::auto_type(no_type_alias)]
fn dead() -> _ {
    jobs_worker::table.filter((jobs_worker::heartbeat_at + jobs_worker::lease_micros).lt(Now))
}

#[diesel::dsl::auto_type(no_type_alias)]
fn orphans() -> _ {
    let (running, known): (Literal, FlagsKnown) = (RUNNING, FlagsKnown("jobs_job"));
    let its_worker = jobs_worker::table.filter(jobs_worker::id.nullable().eq(jobs_job::worker));
    jobs_job::table.filter(jobs_job::state.eq(running)).filter(not(exists(its_worker))).filter(known)
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_worker, check_for_backend(diesel::sqlite::Sqlite))]
struct DeadWorker {
    id: Worker,
    host: String,
    pid: i32,
    heartbeat_at: Instant,
    draining_at: Option<Instant>,
    had_others: bool,
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_job, check_for_backend(diesel::sqlite::Sqlite))]
struct Lost {
    id: i64,
    queue: String,
    kind: String,
    attempt: i32,
    max_attempts: i32,
    crashes: i32,
    worker: Option<Worker>,
}

impl Lost {
    fn worker_id(&self) -> Option<WorkerId> {
        self.worker.map(|worker| worker.0)
    }

    fn crashed(&self, alone: bool) -> Crashed {
        let (attempt, max_attempts, crashes) = (count(self.attempt), count(self.max_attempts), count(self.crashes));
        Crashed { attempt, max_attempts, crashes, alone, kills: None }
    }

    fn failure_text(&self, died: Option<&DeadWorker>, decision: RescueDecision) -> String {
        let mut text = "worker ".to_owned();
        text += &self.worker.map_or_else(|| "unknown".to_owned(), |worker| worker.0.to_string());
        if let Some(DeadWorker { host, pid, heartbeat_at, .. }) = died {
            let last = heartbeat_at.0.format("%Y-%m-%d %H:%M:%SZ");
            text += &format!(" (process {pid} on {host}, last heartbeat {last})");
        }
        if decision.released {
            return text + WAS_KILLED;
        }
        text += " died with the job";
        if died.is_some_and(|worker| worker.draining_at.is_some()) {
            text += KILLED_TOO_OFTEN;
        }
        if let Some(reason) = decision.discard_reason {
            text += &format!("; discarded: {reason}");
        } else if decision.quarantined {
            text += RUNS_ALONE;
        }
        text
    }
}

fn discard(conn: &mut SqliteConnection, job: &Lost, decision: RescueDecision, policy: RescuePolicy) -> QueryResult<()> {
    let expiry = retention::expiry(conn, &job.kind, JobState::Discarded, policy.retention.discarded)?;
    diesel::update(jobs_job::table.find(job.id))
        .set((
            jobs_job::state.eq(literal(JobState::Discarded)),
            jobs_job::crashes.eq(i32::from(decision.crashes)),
            jobs_job::finished_at.eq(Now.nullable()),
            expiry.map(|at| jobs_job::expires_at.eq(at.nullable())),
        ))
        .execute(conn)
        .map(drop)
}

/// Makes the job available again. `run_at` stays the same, because the job has waited long enough. A release takes the
/// attempt back.
fn wait_again(conn: &mut SqliteConnection, job: &Lost, decision: RescueDecision) -> QueryResult<()> {
    diesel::update(jobs_job::table.find(job.id))
        .set((
            jobs_job::state.eq(AVAILABLE),
            jobs_job::attempt.eq(if decision.released { (job.attempt - 1).max(0) } else { job.attempt }),
            jobs_job::crashes.eq(i32::from(decision.crashes)),
            jobs_job::worker.eq(None::<Worker>),
            jobs_job::claimed_at.eq(None::<i64>),
        ))
        .execute(conn)
        .map(drop)
}
