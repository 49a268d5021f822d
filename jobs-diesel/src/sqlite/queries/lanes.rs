//! The lanes of jobs with several rules, see `several`.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use diesel_jobs_core::flags::{HELD, RATE, SEQUENCE};

use crate::sqlite::queries::keys::{Number, yes};

/// The held jobs that wait at one of their rules.
const AT_A_LIMIT: &str =
    "jobs_job indexed by jobs_job_held_from_lane where flags & 2 and flags & 132 = 128 and limit_name <> ''";

/// Whether jobs with several rules are held. Only reads.
pub(super) fn exist(conn: &mut SqliteConnection) -> QueryResult<bool> {
    yes(conn, "exists (select 1 from jobs_job indexed by jobs_job_held_several where flags & 2 and flags & 128)")
}

/// Whether a job of the lane waits at one of its limits. Only reads.
pub(super) fn waits_at_limit(conn: &mut SqliteConnection, lane: &str) -> QueryResult<bool> {
    let found: Number =
        sql_query(format!("select exists (select 1 from {AT_A_LIMIT} and held_back = 0 and lane = ?1) as number"))
            .bind::<Text, _>(lane)
            .get_result(conn)?;
    Ok(found.number != 0)
}

/// The flags and the place of a job that is not held any more, as an assignment.
pub(super) fn free_of_lane() -> String {
    format!(
        "waits_at = null, flags = flags & ~{} | case when rules -> '$[0].rule.sequence' is null then 0 else {SEQUENCE} end",
        HELD | SEQUENCE | RATE
    )
}
