//! `expire`: cancels waiting jobs whose first attempt has not started in time.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_jobs_core::__private::expired;
use diesel_jobs_core::JobState;
use diesel_jobs_core::flags::{EXPIRES, KNOWN};
use diesel_jobs_core::storage::{EndedWaiting, MOST_ENDED};

use crate::sqlite::queries::keys::yes;
use crate::sqlite::queries::operate::end_because;
use crate::sqlite::time::NOW;

/// The jobs whose time is over. A running job that a worker releases still has its time.
const OVER: &str = "from jobs_job indexed by jobs_job_start_by where start_by is not null and state <> 'running'";

/// Whether there are such jobs, and the database is not frozen. Only reads.
pub(crate) fn is_needed(conn: &mut SqliteConnection) -> QueryResult<bool> {
    let frozen = "exists (select 1 from jobs_installation where frozen_at is not null)";
    yes(conn, &format!("exists (select 1 {OVER} and start_by <= {NOW}) and not {frozen}"))
}

#[derive(QueryableByName)]
struct Found {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
}

/// Cancels the jobs, and forgets the times of those that have started or ended.
pub(crate) fn expire(conn: &mut SqliteConnection, keep: Duration) -> QueryResult<Vec<EndedWaiting>> {
    let waiting: Vec<Found> = sql_query(format!(
        "select id, queue, kind {OVER} and start_by <= {NOW} and state = 'available' and attempt = 0 and flags & {EXPIRES} and flags & ~{KNOWN} = 0
         order by start_by limit {MOST_ENDED}"
    ))
    .load(conn)?;
    for job in &waiting {
        end_because(conn, &[job.id], &expired(), None, keep)?;
    }
    let forget = format!(
        "update jobs_job set start_by = null where id in (
             select id {OVER} and start_by <= {NOW} and not (state = 'available' and attempt = 0 and flags & {EXPIRES}) limit 5000
         )"
    );
    sql_query(forget).execute(conn)?;
    Ok(waiting
        .into_iter()
        .map(|Found { queue, kind, .. }| EndedWaiting { queue, kind, state: JobState::Cancelled })
        .collect())
}
