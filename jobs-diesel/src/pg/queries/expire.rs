//! `expire`: cancels waiting jobs whose first attempt has not started in time. It finds them by `expiry_time`, and each
//! job by its id. Rows that another session has locked are passed over: a claim has locked them, or a later call finds
//! them. It also deletes the rows of jobs that have ended or started, so that the statements that end jobs need not do
//! it.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Text, Timestamptz};
use diesel_jobs_core::__private::expired;
use diesel_jobs_core::storage::MOST_ENDED;
use diesel_jobs_core::{ClaimedJob, Failure, Finish, Transition};

use super::end_waiting::IS_NOT_LEFT_OUT;
use crate::pg::native::{native_query, sql};

pub(crate) struct ExpireQuery {
    limit: i64,
    reason: Failure,
    keep_seconds: f64,
}

impl ExpireQuery {
    pub(crate) fn new(keep_seconds: f64) -> Self {
        Self { limit: i64::try_from(MOST_ENDED).unwrap_or(i64::MAX), reason: expired(), keep_seconds }
    }
}

impl QueryFragment<Pg> for ExpireQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with due as materialized (
    select ctid, job_id from jobs.expiry where start_by <= clock_timestamp() and " IS_NOT_LEFT_OUT "expiry.job_id offset 0)
    order by start_by limit " [self.limit => BigInt] "
    for update skip locked
), ended as materialized (
    select id, queue, kind from jobs.cancel_jobs(array(select job_id from due), " [self.reason.message => Text] ", null,
        " [self.reason.fingerprint => BigInt] ", " [self.keep_seconds => Double] ", 32)
), forgotten as (
    delete from jobs.expiry where ctid = any(array(
        select due.ctid from due
        where due.job_id = any(array(select id from ended))
           or not exists (select from jobs.ready r where r.id = due.job_id and r.flags & 32 <> 0 and r.attempt = 0 offset 0)
          and not exists (select from jobs.held h where h.id = due.job_id and h.flags & 32 <> 0 and h.attempt = 0 offset 0)
    ))
)
select queue, kind from ended"
        )
    }
}

native_query!(ExpireQuery -> (Text, Text));

/// The jobs of which `expire` has failed to cancel one, so that they are cancelled one by one. The next `expire`
/// deletes their rows of `jobs.expiry`.
pub(crate) struct DueQuery {
    limit: i64,
}

impl DueQuery {
    pub(crate) fn new() -> Self {
        Self { limit: i64::try_from(MOST_ENDED).unwrap_or(i64::MAX) }
    }
}

impl QueryFragment<Pg> for DueQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select job_id from jobs.expiry where start_by <= clock_timestamp() and " IS_NOT_LEFT_OUT "expiry.job_id offset 0)
        order by start_by limit " [self.limit => BigInt]
        )
    }
}

native_query!(DueQuery -> BigInt);

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
