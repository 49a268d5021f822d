//! `rescue`: frees the jobs of workers whose lease ran out.
//!
//! The worker's row goes first, so a worker that comes back finds itself unregistered and its leases refused. Running
//! jobs whose worker has no row at all (it left without finishing them) are freed too.

use diesel::SqliteConnection;
use diesel::dsl::{exists, not};
use diesel::prelude::*;
use jobs_core::storage::{RescuePolicy, Rescued};
use jobs_core::{Failure, FailureKind, JobId, JobState};

use crate::sqlite::literal::{AVAILABLE, Literal, RUNNING, literal};
use crate::sqlite::queries::failures;
use crate::sqlite::schema::{jobs_job, jobs_worker};
use crate::sqlite::time::{Now, after};
use crate::sqlite::types::{Instant, Worker};

/// Whether there is anybody to rescue. Only reads.
pub(crate) fn is_needed(conn: &mut SqliteConnection) -> QueryResult<bool> {
    Ok(diesel::select(exists(dead())).get_result(conn)? || diesel::select(exists(orphans())).get_result(conn)?)
}

pub(crate) fn rescue(conn: &mut SqliteConnection, policy: RescuePolicy) -> QueryResult<Rescued> {
    let dead: Vec<DeadWorker> = diesel::delete(dead()).returning(DeadWorker::as_returning()).get_results(conn)?;
    let orphans: Vec<Orphan> = orphans().order(jobs_job::id).select(Orphan::as_select()).load(conn)?;
    let mut rescued = Rescued::default();
    for orphan in orphans {
        let verdict = orphan.verdict(policy);
        let died = dead.iter().find(|worker| Some(worker.id.0) == orphan.worker.map(|worker| worker.0));
        let failure = Failure::new(FailureKind::Crash, &orphan.obituary(died, verdict));
        match verdict {
            Some(_) => discard(conn, &orphan, policy)?,
            None => wait_again(conn, &orphan)?,
        }
        failures::record(conn, JobId(orphan.id), &failure)?;
        let list = if verdict.is_some() { &mut rescued.discarded } else { &mut rescued.returned };
        list.push(JobId(orphan.id));
    }
    Ok(rescued)
}

#[diesel::dsl::auto_type(no_type_alias)]
fn dead() -> _ {
    jobs_worker::table.filter((jobs_worker::heartbeat_at + jobs_worker::lease_micros).lt(Now))
}

#[diesel::dsl::auto_type(no_type_alias)]
fn orphans() -> _ {
    let running: Literal = RUNNING;
    let its_worker = jobs_worker::table.filter(jobs_worker::id.nullable().eq(jobs_job::worker));
    jobs_job::table.filter(jobs_job::state.eq(running)).filter(not(exists(its_worker)))
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_worker, check_for_backend(diesel::sqlite::Sqlite))]
struct DeadWorker {
    id: Worker,
    host: String,
    pid: i32,
    heartbeat_at: Instant,
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_job, check_for_backend(diesel::sqlite::Sqlite))]
struct Orphan {
    id: i64,
    attempt: i32,
    max_attempts: i32,
    crashes: i32,
    worker: Option<Worker>,
}

impl Orphan {
    /// Why it is discarded, if it is.
    fn verdict(&self, policy: RescuePolicy) -> Option<&'static str> {
        if self.crashes + 1 >= i32::from(policy.max_crashes) {
            Some("it crashed its worker as often as allowed")
        } else if self.attempt >= self.max_attempts {
            Some("no attempt is left")
        } else {
            None
        }
    }

    fn obituary(&self, died: Option<&DeadWorker>, verdict: Option<&str>) -> String {
        let mut text = "worker ".to_owned();
        text += &self.worker.map_or_else(|| "unknown".to_owned(), |worker| worker.0.to_string());
        if let Some(DeadWorker { host, pid, heartbeat_at, .. }) = died {
            text += &format!(" (process {pid} on {host}, last heartbeat {})", heartbeat_at.0);
        }
        text += " died with the job";
        if let Some(verdict) = verdict {
            text += &format!("; discarded: {verdict}");
        }
        text
    }
}

fn discard(conn: &mut SqliteConnection, orphan: &Orphan, policy: RescuePolicy) -> QueryResult<()> {
    diesel::update(jobs_job::table.find(orphan.id))
        .set((
            jobs_job::state.eq(literal(JobState::Discarded)),
            jobs_job::crashes.eq(orphan.crashes + 1),
            jobs_job::finished_at.eq(Now.nullable()),
            jobs_job::expires_at.eq(after(policy.retention.failed).nullable()),
        ))
        .execute(conn)
        .map(drop)
}

/// At its old place: it has waited long enough.
fn wait_again(conn: &mut SqliteConnection, orphan: &Orphan) -> QueryResult<()> {
    diesel::update(jobs_job::table.find(orphan.id))
        .set((
            jobs_job::state.eq(AVAILABLE),
            jobs_job::crashes.eq(orphan.crashes + 1),
            jobs_job::worker.eq(None::<Worker>),
            jobs_job::claimed_at.eq(None::<i64>),
        ))
        .execute(conn)
        .map(drop)
}
