//! `failures`: the newest failures, and the jobs that they are of. `job_error_newest` finds them, and the jobs are
//! looked up one by one.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{
    ENTRIES_EXAMINED, FAILURES_EXAMINED, FailedJob, FailureRow, Failures, MESSAGE_PREFIX, group_failures,
};
use diesel_jobs_core::{FailureKind, JobId};

use super::by_id::{by_id, wanted};
use super::inspect::parsed;
use crate::pg::schema::{job, job_error};

type ErrorRow = (i64, i64, Option<i64>, Option<String>, DateTime<Utc>);

pub(crate) async fn failures(conn: &mut AsyncPgConnection, limit: usize) -> QueryResult<Failures> {
    let most = i64::try_from(FAILURES_EXAMINED).unwrap_or(i64::MAX);
    let entries = i64::try_from(ENTRIES_EXAMINED).unwrap_or(i64::MAX);
    let newest = job_error::table.select(job_error::id).order(job_error::id.desc());
    // The first entry that is not read.
    let floor: Option<i64> = newest.offset(entries).first(conn).await.optional()?;
    let beginning = format!("case when fingerprint is null then left(message, {MESSAGE_PREFIX}) end");
    let errors: Vec<ErrorRow> = job_error::table
        .filter(job_error::id.gt(floor.unwrap_or(i64::MIN)))
        .filter(job_error::kind.ne_all(FailureKind::WITHOUT_FAILURE.map(FailureKind::as_str)))
        .order(job_error::id.desc())
        .limit(most.saturating_add(1))
        .select((
            job_error::id,
            job_error::job_id,
            job_error::fingerprint,
            sql::<Nullable<Text>>(&beginning),
            job_error::at,
        ))
        .load(conn)
        .await?;
    let is_complete = floor.is_none() && errors.len() <= FAILURES_EXAMINED;
    let mut ids: Vec<i64> = errors.iter().map(|error| error.1).collect();
    ids.sort_unstable();
    ids.dedup();
    let newest =
        "(select e.id from jobs.job_error e where e.job_id = job.id order by e.job_id desc, e.id desc limit 1)";
    let newest = sql::<Nullable<BigInt>>(newest);
    let one = job::table.filter(job::id.eq(wanted())).select((job::id, job::kind, job::queue, job::state, newest));
    let jobs: Vec<(i64, String, String, String, Option<i64>)> = by_id(&ids, one).load(conn).await?;
    let jobs: HashMap<i64, FailedJob> = jobs
        .into_iter()
        .map(|(id, kind, queue, state, newest)| {
            (id, FailedJob { kind, queue, state: parsed(&state), newest: newest.unwrap_or_default() })
        })
        .collect();
    let row = |(id, job, fingerprint, message, at): ErrorRow| FailureRow {
        id,
        job: JobId(job),
        of: jobs.get(&job).cloned(),
        fingerprint,
        message,
        at,
    };
    let rows: Vec<FailureRow> = errors.into_iter().take(FAILURES_EXAMINED).map(row).collect();
    let (examined, oldest_at) = (rows.len(), rows.last().map(|row| row.at));
    let grouped = group_failures(rows, Utc::now() - TimeDelta::hours(1), limit);
    let newest: Vec<i64> = grouped.iter().map(|(_, id)| *id).collect();
    let messages: HashMap<i64, String> = job_error::table
        .filter(job_error::id.eq_any(&newest))
        .select((job_error::id, job_error::message))
        .load::<(i64, String)>(conn)
        .await?
        .into_iter()
        .collect();
    let groups = grouped.into_iter().map(|(mut group, newest)| {
        group.message = messages.get(&newest).cloned().unwrap_or_default();
        group
    });
    Ok(Failures { groups: groups.collect(), examined, oldest_at, is_complete })
}
