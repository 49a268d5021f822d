//! `expire`: cancels waiting jobs whose first attempt has not started in time.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel_jobs_core::__private::expired;
use diesel_jobs_core::JobState;
use diesel_jobs_core::flags::{EXPIRES, KNOWN};
use diesel_jobs_core::storage::{Ends, MOST_ENDED};

use crate::sqlite::queries::admission_failure::{MAY_END, forget_started};
use crate::sqlite::queries::end_waiting::{Found, end_all};
use crate::sqlite::queries::keys::yes;
use crate::sqlite::queries::operate::end_because;
use crate::sqlite::time::NOW;

/// The jobs whose time is over. A running job that a worker releases still has its time.
const OVER: &str = "from jobs_job indexed by jobs_job_start_by where start_by is not null and state <> 'running'";

/// Whether there are such jobs, and the database is not frozen. Only reads.
pub(crate) fn is_needed(conn: &mut SqliteConnection) -> QueryResult<bool> {
    let frozen = "exists (select 1 from jobs_installation where frozen_at is not null)";
    yes(conn, &format!("exists (select 1 {OVER} and start_by <= {NOW} and {MAY_END}{NOW})) and not {frozen}"))
}

/// Cancels the jobs, and forgets the times of those that have started or ended.
pub(crate) fn expire(conn: &mut SqliteConnection, keep: Duration) -> QueryResult<Ends> {
    let waiting: Vec<Found> = sql_query(format!(
        "select id, queue, kind {OVER} and start_by <= {NOW} and state = 'available' and attempt = 0 and flags & {EXPIRES} and flags & ~{KNOWN} = 0
           and {MAY_END}{NOW}) order by start_by limit {MOST_ENDED}"
    ))
    .load(conn)?;
    let mut ends = Ends::default();
    end_all(conn, waiting, JobState::Cancelled, &mut ends, |conn, id| {
        end_because(conn, &[id], &expired(), None, keep)
    })?;
    let forget = format!(
        "update jobs_job set start_by = null where id in (
             select id {OVER} and start_by <= {NOW} and not (state = 'available' and attempt = 0 and flags & {EXPIRES}) limit 5000
         )"
    );
    sql_query(forget).execute(conn)?;
    forget_started(conn)?;
    Ok(ends)
}
