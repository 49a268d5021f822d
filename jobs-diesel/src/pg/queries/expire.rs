//! `expire`: cancels waiting jobs whose first attempt has not started in time. It finds them by `expiry_time`, and each
//! job by its id. Rows that another session has locked are passed over: a claim has locked them, or a later call finds
//! them. It also deletes the rows of jobs that have ended or started, so that the statements that end jobs need not do
//! it.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Text, Timestamptz};
use diesel_jobs_core::__private::expired;
use diesel_jobs_core::storage::MOST_ENDED;
use diesel_jobs_core::{ClaimedJob, Finish, Transition};

use super::columns::{CARRIED, READY};
use super::operate::IntoCancelled;
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct ExpireQuery {
    limit: i64,
    into_cancelled: IntoCancelled,
}

impl ExpireQuery {
    pub(crate) fn new(keep_seconds: f64) -> Self {
        let limit = i64::try_from(MOST_ENDED).unwrap_or(i64::MAX);
        Self { limit, into_cancelled: IntoCancelled::because_of(&expired(), keep_seconds) }
    }
}

impl QueryFragment<Pg> for ExpireQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with due as materialized (
    select ctid, job_id from jobs.expiry where start_by <= clock_timestamp() order by start_by limit " [self.limit => BigInt] "
    for update skip locked
), waiting as (
    delete from jobs.ready where ctid = any(array(
        select found.ctid from due cross join lateral (
            select ctid from jobs.ready where id = due.job_id and flags & 32 <> 0 and attempt = 0 and " {FlagsKnown("ready")} " for update skip locked
        ) found
    ))
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), held as (
    delete from jobs.held where ctid = any(array(
        select found.ctid from due cross join lateral (
            select ctid from jobs.held where id = due.job_id and flags & 32 <> 0 and attempt = 0 and " {FlagsKnown("held")} " for update skip locked
        ) found
    ))
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), forgotten as (
    delete from jobs.expiry where ctid = any(array(
        select due.ctid from due
        where due.job_id = any(array(select id from waiting union all select id from held))
           or not exists (select from jobs.ready r where r.id = due.job_id and r.flags & 32 <> 0 and r.attempt = 0 offset 0)
          and not exists (select from jobs.held h where h.id = due.job_id and h.flags & 32 <> 0 and h.attempt = 0 offset 0)
    ))
), running as (
    select " READY ", claimed_at, worker, " CARRIED " from jobs.running limit 0
" {self.into_cancelled} "
select queue, kind from waiting union all select queue, kind from held"
        )
    }
}

native_query!(ExpireQuery -> (Text, Text));

/// `start_by`: the times before which jobs must start.
pub(crate) struct StartByQuery {
    ids: Vec<i64>,
}

impl StartByQuery {
    /// The query for those of these jobs that may expire.
    pub(crate) fn new(jobs: &[ClaimedJob]) -> Self {
        Self { ids: jobs.iter().filter(|job| is_first(job)).map(|job| job.lease.job.0).collect() }
    }
}

impl QueryFragment<Pg> for StartByQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "select job_id, start_by from jobs.expiry where job_id = any(" [self.ids => Array<BigInt>] ")")
    }
}

native_query!(StartByQuery -> (BigInt, Timestamptz));

/// Adds these times to the jobs. A job without a time has expired.
pub(crate) fn add_start_by(jobs: &mut [ClaimedJob], times: &[(i64, DateTime<Utc>)]) {
    for job in jobs.iter_mut().filter(|job| is_first(job)) {
        let time = times.iter().filter(|(id, _)| *id == job.lease.job.0).map(|(_, time)| *time).max();
        job.start_by = Some(time.unwrap_or(DateTime::<Utc>::MIN_UTC));
    }
}

/// Whether a claim has brought a job that may expire.
pub(crate) fn any_expires(jobs: &[ClaimedJob]) -> bool {
    jobs.iter().any(is_first)
}

fn is_first(job: &ClaimedJob) -> bool {
    job.flags.expires() && job.attempt == 1
}

/// The jobs that expire and have started. Their rows are not needed any more.
pub(crate) fn started(batch: &[Finish]) -> Vec<i64> {
    let started = |one: &&Finish| one.flags.expires() && !matches!(one.transition, Transition::Release);
    batch.iter().filter(started).map(|one| one.lease.job.0).collect()
}

/// `forget_expiry`: deletes the rows of these jobs.
pub(crate) struct ForgetQuery {
    pub(crate) ids: Vec<i64>,
}

impl QueryFragment<Pg> for ForgetQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(out, "delete from jobs.expiry where job_id = any(" [self.ids => Array<BigInt>] ")")
    }
}

native_query!(ForgetQuery -> BigInt);
