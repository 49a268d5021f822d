//! `failures`: the newest failures, and the jobs that they are of.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use chrono::{TimeDelta, Utc};
use diesel::SqliteConnection;
use diesel::dsl::{max, sql};
use diesel::prelude::*;
use diesel::sql_types::{Nullable, Text};
use diesel_jobs_core::storage::{
    ENTRIES_EXAMINED, FAILURES_EXAMINED, FailedJob, FailureRow, Failures, MESSAGE_PREFIX, group_failures,
};
use diesel_jobs_core::{FailureKind, JobId};

use crate::sqlite::schema::{job, jobs_job_error};
use crate::sqlite::types::{Instant, State};

type ErrorRow = (i64, i64, Option<i64>, Option<String>, Instant);

pub(crate) fn failures(conn: &mut SqliteConnection, limit: usize) -> QueryResult<Failures> {
    let most = i64::try_from(FAILURES_EXAMINED).unwrap_or(i64::MAX);
    let entries = i64::try_from(ENTRIES_EXAMINED).unwrap_or(i64::MAX);
    let newest = jobs_job_error::table.select(jobs_job_error::id).order(jobs_job_error::id.desc());
    // The first entry that is not read.
    let floor: Option<i64> = newest.offset(entries).first(conn).optional()?;
    let beginning = format!("case when fingerprint is null then substr(message, 1, {MESSAGE_PREFIX}) end");
    let errors: Vec<ErrorRow> = jobs_job_error::table
        .filter(jobs_job_error::id.gt(floor.unwrap_or(i64::MIN)))
        .filter(jobs_job_error::kind.ne_all(FailureKind::WITHOUT_FAILURE.map(FailureKind::as_str)))
        .order(jobs_job_error::id.desc())
        .limit(most.saturating_add(1))
        .select((
            jobs_job_error::id,
            jobs_job_error::job_id,
            jobs_job_error::fingerprint,
            sql::<Nullable<Text>>(&beginning),
            jobs_job_error::at,
        ))
        .load(conn)?;
    let is_complete = floor.is_none() && errors.len() <= FAILURES_EXAMINED;
    let mut of = HashMap::new();
    let mut rows = Vec::with_capacity(errors.len());
    for (id, of_job, fingerprint, message, at) in errors.into_iter().take(FAILURES_EXAMINED) {
        if let Entry::Vacant(unknown) = of.entry(of_job) {
            let columns = (job::kind, job::queue, job::state);
            let found = job::table.find(of_job).select(columns).first::<(String, String, State)>(conn);
            let entries = jobs_job_error::table.filter(jobs_job_error::job_id.eq(of_job));
            let newest = entries.select(max(jobs_job_error::id)).first::<Option<i64>>(conn)?.unwrap_or_default();
            let known = |(kind, queue, State(state))| FailedJob { kind, queue, state, newest };
            unknown.insert(found.optional()?.map(known));
        }
        let of = of.get(&of_job).cloned().flatten();
        rows.push(FailureRow { id, job: JobId(of_job), of, fingerprint, message, at: at.0 });
    }
    let (examined, oldest_at) = (rows.len(), rows.last().map(|row| row.at));
    let mut groups = Vec::new();
    for (mut group, newest) in group_failures(rows, Utc::now() - TimeDelta::hours(1), limit) {
        group.message = jobs_job_error::table.find(newest).select(jobs_job_error::message).first(conn)?;
        groups.push(group);
    }
    Ok(Failures { groups, examined, oldest_at, is_complete })
}
