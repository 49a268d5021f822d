//! `stats`: how many jobs of each queue and kind are in which state.

use diesel::SqliteConnection;
use diesel::dsl::{count, min, sql};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_jobs_core::{JobState, KindStats};

use crate::kind_stats::{StatsRow, kind_stats};
use crate::sqlite::literal::{AVAILABLE, literal};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::Now;

pub(crate) fn stats(conn: &mut SqliteConnection) -> QueryResult<Vec<KindStats>> {
    let now: i64 = diesel::select(Now).get_result(conn)?;
    let due = || jobs_job::state.eq(AVAILABLE).and(jobs_job::run_at.le(now));
    let time = || sql::<BigInt>("coalesce(due_at, run_at)");
    let later = || jobs_job::state.eq(AVAILABLE).and(time().gt(now));
    let held = jobs_job::state
        .eq(AVAILABLE)
        .and(jobs_job::due_at.assume_not_null().le(now))
        .and(jobs_job::due_at.is_not_null());
    let in_state = |state| count(jobs_job::id).aggregate_filter(jobs_job::state.eq(literal(state)));
    let rows = jobs_job::table
        .group_by((jobs_job::queue, jobs_job::kind))
        .order((jobs_job::queue, jobs_job::kind))
        .select((
            jobs_job::queue,
            jobs_job::kind,
            count(jobs_job::id).aggregate_filter(due()),
            count(jobs_job::id).aggregate_filter(later().and(jobs_job::attempt.eq(0))),
            count(jobs_job::id).aggregate_filter(later().and(jobs_job::attempt.gt(0))),
            count(jobs_job::id).aggregate_filter(held),
            in_state(JobState::Running),
            in_state(JobState::Completed),
            in_state(JobState::Cancelled),
            in_state(JobState::Discarded),
            min(jobs_job::run_at).aggregate_filter(due()),
        ))
        .load::<StatsRow<i64>>(conn)?;
    Ok(kind_stats(rows, |oldest| now.saturating_sub(oldest) as f64 / 1e6))
}
