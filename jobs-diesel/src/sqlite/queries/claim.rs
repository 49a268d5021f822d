//! `claim`: leases the best due jobs of the wanted queues. The caller's transaction holds the write lock, so no other
//! worker claims between two levels.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_jobs_core::flags::JobFlags;
use diesel_jobs_core::storage::{Claim, QUARANTINED_COUNTS, Wanted, quarantined_at_once};
use diesel_jobs_core::{ClaimedJob, JobId, Lease, Traceparent, WorkerId};

use crate::flags::FlagsKnown;
use crate::sqlite::literal::{AVAILABLE, Literal, RUNNING};
use crate::sqlite::queries::claim_level::ClaimLevelQuery;
#[cfg(feature = "testing")]
use crate::sqlite::queries::limits;
use crate::sqlite::queries::{levels, worker};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{Now, micros};
use crate::sqlite::types::{Instant, Worker, count};

diesel::alias!(const READY: Alias<Ready> = jobs_job as ready);

pub(crate) fn claim(conn: &mut SqliteConnection, claim: &Claim) -> QueryResult<Vec<ClaimedJob>> {
    let mut claimed = Vec::new();
    if !worker::is_registered(conn, claim.worker)? {
        return Ok(claimed);
    }
    let kinds = serde_json::Value::from(&*claim.kinds).to_string();
    for Wanted { queue, slots, prefetch } in &claim.wanted {
        let left = claim.most.map_or(usize::MAX, |most| most.saturating_sub(claimed.len()));
        if left == 0 {
            break;
        }
        if levels::is_paused(conn, queue)? {
            continue;
        }
        let (mut slots, mut prefetch) = (left.min(*slots), left.saturating_sub(*slots).min(*prefetch));
        levels::walk(conn, queue, |conn, priority| {
            let level = ClaimLevelQuery {
                worker: Worker(claim.worker),
                queue,
                priority,
                kinds: &kinds,
                quarantined_at: claim.quarantined_at.into(),
                limit: i64::try_from(slots + prefetch).unwrap_or(i64::MAX),
            };
            let mut rows: Vec<ClaimedRow> = level.load(conn)?;
            // `returning` does not guarantee an order.
            rows.sort_unstable_by_key(|row| (row.run_at.0, row.id));
            if let Some(place) = rows.iter().position(ClaimedRow::is_at_risk) {
                let beyond = rows.split_off(place.max(slots).min(rows.len()));
                if !beyond.is_empty() {
                    put_back(conn, &beyond)?;
                }
                prefetch = 0;
            }
            let at_once = rows.len().min(slots);
            (slots, prefetch) = (slots - at_once, prefetch.saturating_sub(rows.len() - at_once));
            claimed.extend(rows.into_iter().map(|row| row.into_job(claim.worker)));
            Ok(slots + prefetch > 0)
        })?;
    }
    claimed.sort_unstable_by_key(|job| (Reverse(job.priority), job.run_at, job.lease.job));
    Ok(claimed)
}

/// Makes this waiting job a running one, for the testing kit. It need not be due, and the worker need not be
/// registered.
#[cfg(feature = "testing")]
pub(crate) fn start(conn: &mut SqliteConnection, job: JobId, worker: WorkerId) -> QueryResult<Option<ClaimedJob>> {
    limits::unhold(conn, job)?;
    let waiting = jobs_job::table.filter(jobs_job::id.eq(job.0)).filter(jobs_job::state.eq(AVAILABLE));
    let started: Option<ClaimedRow> = diesel::update(waiting.filter(FlagsKnown("jobs_job")))
        .set(leased(worker))
        .returning(ClaimedRow::as_returning())
        .get_result(conn)
        .optional()?;
    Ok(started.map(|row| row.into_job(worker)))
}

/// Leases the best due quarantined job. Returns `None` if there is none, or if enough quarantined jobs are running that
/// were claimed within [`QUARANTINED_COUNTS`].
pub(crate) fn claim_quarantined(conn: &mut SqliteConnection, claim: &Claim) -> QueryResult<Option<ClaimedJob>> {
    let quarantined_at = i32::from(claim.quarantined_at);
    let running = jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .filter(jobs_job::crashes.ge(quarantined_at))
        .filter((jobs_job::claimed_at + micros(QUARANTINED_COUNTS)).gt(Now.nullable()))
        .count();
    if !worker::is_registered(conn, claim.worker)?
        || running.get_result::<i64>(conn)? >= quarantined_at_once(worker::number(conn)?)
    {
        return Ok(None);
    }
    let mut queues = Vec::new();
    for Wanted { queue, slots, .. } in &claim.wanted {
        if *slots > 0 && !levels::is_paused(conn, queue)? {
            queues.push(&**queue);
        }
    }
    let best = READY
        .filter(READY.field(jobs_job::state).eq(AVAILABLE))
        // A literal, because with a bind SQLite could not use the partial index.
        .filter(sql::<Bool>("ready.crashes > 0"))
        .filter(READY.field(jobs_job::crashes).ge(quarantined_at))
        .filter(READY.field(jobs_job::run_at).le(Now))
        .filter(READY.field(jobs_job::queue).eq_any(queues))
        .filter(READY.field(jobs_job::kind).eq_any(&*claim.kinds))
        .filter(FlagsKnown("ready"))
        .order((READY.field(jobs_job::priority).desc(), READY.field(jobs_job::run_at), READY.field(jobs_job::id)))
        .limit(1)
        .select(READY.field(jobs_job::id));
    let claimed: Option<ClaimedRow> = diesel::update(jobs_job::table.filter(jobs_job::id.eq_any(best)))
        .set(leased(claim.worker))
        .returning(ClaimedRow::as_returning())
        .get_result(conn)
        .optional()?;
    Ok(claimed.map(|row| row.into_job(claim.worker)))
}

/// The values that a claim sets.
#[diesel::dsl::auto_type(no_type_alias)]
fn leased(worker: WorkerId) -> _ {
    let (state, worker): (Literal, Worker) = (RUNNING, Worker(worker));
    (
        jobs_job::state.eq(state),
        jobs_job::attempt.eq(jobs_job::attempt + 1_i32),
        jobs_job::lease.eq(jobs_job::lease + 1_i32),
        jobs_job::worker.eq(worker),
        jobs_job::claimed_at.eq(Now.nullable()),
    )
}

/// Restores these rows to their state before the claim. The transaction is still open, so no other session has seen the
/// claim.
fn put_back(conn: &mut SqliteConnection, rows: &[ClaimedRow]) -> QueryResult<usize> {
    diesel::update(jobs_job::table.filter(jobs_job::id.eq_any(rows.iter().map(|row| row.id))))
        .set((
            jobs_job::state.eq(AVAILABLE),
            jobs_job::attempt.eq(jobs_job::attempt - 1),
            jobs_job::lease.eq(jobs_job::lease - 1),
            jobs_job::worker.eq(None::<Worker>),
            jobs_job::claimed_at.eq(None::<i64>),
        ))
        .execute(conn)
}

/// In the order of [`ClaimLevelQuery`].
#[derive(Queryable, Selectable)]
#[diesel(table_name = jobs_job, check_for_backend(diesel::sqlite::Sqlite))]
struct ClaimedRow {
    id: i64,
    lease: i32,
    kind: String,
    queue: String,
    priority: i16,
    args: String,
    attempt: i32,
    max_attempts: i32,
    crashes: i32,
    flags: i32,
    run_at: Instant,
    enqueued_at: Instant,
    claimed_at: Option<Instant>,
    traceparent: Option<String>,
    start_by: Option<Instant>,
}

impl ClaimedRow {
    /// Whether the job must not be [prefetched](Wanted::prefetch): one crash of the worker would discard it, or it was
    /// in a crash before.
    fn is_at_risk(&self) -> bool {
        self.crashes > 0 || self.attempt >= self.max_attempts
    }

    fn into_job(self, worker: WorkerId) -> ClaimedJob {
        let flags = JobFlags(self.flags);
        let is_first = flags.expires() && self.attempt == 1;
        // A sweep has deleted the time of a job that has expired.
        let start_by = is_first.then(|| self.start_by.map_or(DateTime::<Utc>::MIN_UTC, |time| time.0));
        ClaimedJob {
            lease: Lease { job: JobId(self.id), number: self.lease, worker },
            flags,
            kind: self.kind,
            queue: self.queue,
            priority: self.priority,
            args: self.args.into_bytes(),
            attempt: count(self.attempt),
            max_attempts: count(self.max_attempts),
            run_at: self.run_at.0,
            enqueued_at: self.enqueued_at.0,
            // The statement that returned the row has set this column.
            claimed_at: self.claimed_at.unwrap_or(self.run_at).0,
            traceparent: self.traceparent.as_deref().and_then(Traceparent::parse),
            start_by,
        }
    }
}
