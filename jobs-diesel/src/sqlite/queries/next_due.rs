//! `next_due`: how long until the earliest waiting job is due. Reads only the claim's index.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::storage::{Claim, Waiting, Wanted};

use crate::flags::FlagsKnown;
use crate::sqlite::literal::AVAILABLE;
use crate::sqlite::queries::{levels, limits};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{FAR, Now};

/// The time until the first of these waiting jobs is due, or its token comes.
pub(crate) fn next_of(conn: &mut SqliteConnection, claim: &Claim, waiting: Waiting) -> QueryResult<Option<Duration>> {
    match waiting {
        Waiting::Available { .. } => next_due(conn, claim),
        Waiting::Held => limits::next_held(conn, claim),
        Waiting::Token => limits::next_token(conn, claim),
    }
}

fn next_due(conn: &mut SqliteConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    let now: i64 = diesel::select(Now).get_result(conn)?;
    let mut earliest: Option<i64> = None;
    for Wanted { queue, .. } in &claim.wanted {
        if levels::is_paused(conn, queue)? {
            continue;
        }
        levels::walk(conn, queue, |conn, priority| {
            if let Some(first) = first_of_lane(conn, claim, queue, priority)? {
                earliest = Some(earliest.map_or(first, |known| known.min(first)));
            }
            // Once a job is due, the other levels need not be read.
            Ok(earliest.is_none_or(|earliest| earliest > now))
        })?;
    }
    Ok(earliest.map(|earliest| Duration::from_micros(earliest.saturating_sub(now).try_into().unwrap_or(0))))
}

fn first_of_lane(conn: &mut SqliteConnection, claim: &Claim, queue: &str, priority: i16) -> QueryResult<Option<i64>> {
    jobs_job::table
        .filter(jobs_job::state.eq(AVAILABLE))
        .filter(jobs_job::queue.eq(queue))
        .filter(jobs_job::priority.eq(priority))
        .filter(jobs_job::kind.eq_any(&*claim.kinds))
        .filter(jobs_job::crashes.lt(i32::from(claim.quarantined_at)))
        .filter(FlagsKnown("jobs_job"))
        .filter(jobs_job::run_at.lt(FAR))
        .order((jobs_job::run_at, jobs_job::id))
        .select(jobs_job::run_at)
        .first(conn)
        .optional()
}
