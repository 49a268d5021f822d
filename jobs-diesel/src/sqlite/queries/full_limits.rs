//! `end_full`: ends jobs that do not wait although their limit is full. It leaves the first jobs of each key to
//! admission, as many as there are free permits or tokens. `jobs.full_jobs` on PostgreSQL has the same rules.

use std::collections::BTreeSet;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Bool, Integer, Text};
use diesel_jobs_core::flags::{KNOWN, RATE};
use diesel_jobs_core::storage::{Ends, MOST_ENDED};
use diesel_jobs_core::{JobId, JobRule, JobState, OnFull, Retention};

use crate::sqlite::queries::act::end_as_discarded;
use crate::sqlite::queries::admission_failure::{MAY_END, forget_started};
use crate::sqlite::queries::end_waiting::{Found, end_all};
use crate::sqlite::queries::installation::is_frozen;
use crate::sqlite::queries::keys::{IN_ORDER, Key, PAUSED, first_jobs, free, yes};
use crate::sqlite::queries::operate::end_because;
use crate::sqlite::queries::rate;
use crate::sqlite::time::NOW;

/// The held jobs that do not wait, before their first attempt.
const FOUND: &str =
    "from jobs_job indexed by jobs_job_held_on_full where flags & 2 and flags & 64 and held_back = 0 and lease = 0";

/// What happens to a job that finds its limit full.
const ON_FULL: &str = "coalesce(rules ->> '$[0].rule.concurrency.on_full', rules ->> '$[0].rule.rate.on_full')";

/// Keys per call.
const MOST_KEYS: i64 = 1000;

/// Whether there are such jobs, and the database is not frozen. Only reads.
pub(crate) fn is_needed(conn: &mut SqliteConnection) -> QueryResult<bool> {
    Ok(yes(conn, &format!("exists (select 1 {FOUND})"))? && !is_frozen(conn)?)
}

#[derive(QueryableByName)]
struct KeyRow {
    #[diesel(embed)]
    key: Key,
    /// The flag of a rate, or 0. A limit and a rate may have the same name and key.
    #[diesel(sql_type = Integer)]
    rated: i32,
}

#[derive(QueryableByName)]
struct Full {
    #[diesel(embed)]
    job: Found,
    #[diesel(sql_type = Text)]
    rule: String,
}

/// Ends the jobs. The caller's transaction holds the write lock.
pub(crate) fn end_full(conn: &mut SqliteConnection, retention: Retention) -> QueryResult<Ends> {
    let mut ends = Ends::default();
    if is_frozen(conn)? {
        return Ok(ends);
    }
    let keys: Vec<KeyRow> = sql_query(format!(
        "select distinct limit_name, limit_key, flags & {RATE} as rated {FOUND} order by limit_name, limit_key, flags & {RATE} limit {MOST_KEYS}"
    ))
    .load(conn)?;
    for KeyRow { key, rated } in keys {
        let in_order = if rated == 0 { IN_ORDER } else { rate::IN_ORDER };
        let free = if rated == 0 { free(conn, &key)? } else { tokens(conn, &key)? };
        let may_start = first_jobs(conn, &key, in_order, free.max(0), true)?;
        let full = full_jobs(conn, &key, rated, may_start)?;
        let (discarded, others): (Vec<Full>, Vec<Full>) =
            full.into_iter().partition(|job| OnFull::parse(&job.rule) == OnFull::Discard);
        if let Some(reason) = OnFull::Discard.failure(&key.limit_name) {
            let discarded = discarded.into_iter().map(|full| full.job).collect();
            end_all(conn, discarded, JobState::Discarded, &mut ends, |conn, id| {
                end_as_discarded(conn, JobId(id), &reason, None, retention.discarded)
            })?;
        }
        let oldest = if others.is_empty() { Vec::new() } else { oldest(conn, &key, free)? };
        if let Some(reason) = OnFull::CancelOldest.failure(&key.limit_name) {
            end_all(conn, oldest, JobState::Cancelled, &mut ends, |conn, id| {
                end_because(conn, &[id], &reason, None, retention.cancelled)
            })?;
        }
        if ends.ended.len() >= MOST_ENDED {
            break;
        }
    }
    forget_started(conn)?;
    Ok(ends)
}

#[derive(QueryableByName)]
struct Head {
    #[diesel(sql_type = Text)]
    place: String,
}

/// The tokens of the key. The first job decides, as in a pass.
fn tokens(conn: &mut SqliteConnection, key: &Key) -> QueryResult<i64> {
    let head: Option<Head> = sql_query(format!("select place {} limit 1", rate::IN_ORDER))
        .bind::<Text, _>(&key.limit_name)
        .bind::<Text, _>(&key.limit_key)
        .get_result(conn)
        .optional()?;
    match head.and_then(|head| serde_json::from_str::<JobRule>(&head.place).ok()) {
        Some(rule) => rate::tokens(conn, &rule),
        None => Ok(0),
    }
}

/// The jobs of the key that do not wait, without those that may start.
fn full_jobs(conn: &mut SqliteConnection, key: &Key, rated: i32, may_start: Vec<JobId>) -> QueryResult<Vec<Full>> {
    let may_start: BTreeSet<i64> = may_start.into_iter().map(|id| id.0).collect();
    let mut jobs: Vec<Full> = sql_query(format!(
        "select id, queue, kind, {ON_FULL} as rule {FOUND} and limit_name = ?1 and limit_key = ?2 and flags & {RATE} = ?3
           and flags & ~{KNOWN} = 0 and {ON_FULL} is not null and not {PAUSED} and {MAY_END}{NOW})
         order by priority desc, due_at, id limit {MOST_ENDED} + ?4"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .bind::<Integer, _>(rated)
    .bind::<BigInt, _>(i64::try_from(may_start.len()).unwrap_or(i64::MAX))
    .load(conn)?;
    jobs.retain(|full| !may_start.contains(&full.job.id));
    Ok(jobs)
}

#[derive(QueryableByName)]
struct Oldest {
    #[diesel(embed)]
    job: Found,
    #[diesel(sql_type = Integer)]
    started: i32,
    #[diesel(sql_type = Bool)]
    may_end: bool,
}

/// The oldest jobs of the key that have the rule, waiting or started, behind as many newer ones as the limit allows.
/// Permits of other jobs stay taken. One job is always left. Those that the file has refused to end are left out for a
/// while.
fn oldest(conn: &mut SqliteConnection, key: &Key, free: i64) -> QueryResult<Vec<Found>> {
    let jobs: Vec<Oldest> = sql_query(format!(
        "select id, queue, kind, 1 as started, {MAY_END}{NOW}) as may_end from jobs_job
         where id in (select job_id from jobs_permit where limit_name = ?1 and limit_key = ?2)
           and flags & 64 and flags & ~{KNOWN} = 0 and {ON_FULL} = 'cancel_oldest'
         union all
         select id, queue, kind, 0 as started, {MAY_END}{NOW}) as may_end from jobs_job indexed by jobs_job_held
         where flags & 2 and held_back = 0 and flags & 12 = 0 and limit_name = ?1 and limit_key = ?2
           and flags & 64 and flags & ~{KNOWN} = 0 and {ON_FULL} = 'cancel_oldest' and not {PAUSED}
         order by id desc"
    ))
    .bind::<Text, _>(&key.limit_name)
    .bind::<Text, _>(&key.limit_key)
    .load(conn)?;
    let started = jobs.iter().filter(|job| job.started == 1).count();
    let left = free.saturating_add(i64::try_from(started).unwrap_or(i64::MAX)).max(1);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    Ok(jobs.into_iter().skip(left).filter(|oldest| oldest.may_end).map(|oldest| oldest.job).collect())
}
