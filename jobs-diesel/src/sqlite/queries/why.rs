//! `surroundings`: what explains why a job does not run. It counts the jobs before it level by level in the index of
//! the claim. So it reads at most a thousand entries and those of the running jobs.

use diesel::SqliteConnection;
use diesel::dsl::{count_star, max};
use diesel::prelude::*;
use diesel_jobs_core::storage::{MOST_AHEAD, MOST_SHOWN, RunningJob, Surroundings};
use diesel_jobs_core::{JobId, JobState};

use crate::sqlite::literal::{AVAILABLE, RUNNING};
use crate::sqlite::queries::{installation, levels, limits, sequence};
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, State, Worker, count};

pub(crate) fn surroundings(conn: &mut SqliteConnection, id: JobId) -> QueryResult<Surroundings> {
    let now: Instant = diesel::select(Now).get_result(conn)?;
    let highest: Option<i64> = jobs_job::table.select(max(jobs_job::id)).first(conn)?;
    let frozen = installation::installation(conn)?.frozen;
    let start_by: Option<Instant> = jobs_job::table
        .filter(jobs_job::id.eq(id.0).and(jobs_job::state.eq(AVAILABLE)).and(jobs_job::attempt.eq(0)))
        .select(jobs_job::start_by)
        .first(conn)
        .optional()?
        .flatten();
    let mut around = Surroundings {
        start_by: start_by.map(|time| time.0),
        now: now.0,
        highest: highest.map(JobId),
        frozen,
        halts: sequence::halted_by(conn, id)?,
        ..Surroundings::default()
    };
    around.held = limits::held_by(conn, id)?;
    let job: Option<(State, String, i16, Instant)> = jobs_job::table
        .find(id.0)
        .select((jobs_job::state, jobs_job::queue, jobs_job::priority, jobs_job::run_at))
        .first(conn)
        .optional()?;
    let Some((State(JobState::Available), queue, priority, run_at)) = job else { return Ok(around) };
    if run_at.0 > now.0 {
        return Ok(around);
    }
    around.ahead = ahead(conn, &queue, priority, run_at, id)?;
    let of_queue = jobs_job::table.filter(jobs_job::state.eq(RUNNING)).filter(jobs_job::queue.eq(&queue));
    around.running_count = of_queue.select(count_star()).first::<i64>(conn)?.unsigned_abs();
    let running: Vec<(i64, String, String, i32, Option<Instant>)> = of_queue
        .order((jobs_job::claimed_at, jobs_job::id))
        .limit(i64::try_from(MOST_SHOWN).unwrap_or(i64::MAX))
        .select((jobs_job::id, jobs_job::kind, jobs_job::queue, jobs_job::attempt, jobs_job::claimed_at))
        .load(conn)?;
    around.running = running
        .into_iter()
        .map(|(id, kind, queue, attempt, claimed_at)| RunningJob {
            id: JobId(id),
            kind,
            queue,
            attempt: count(attempt),
            claimed_at: claimed_at.unwrap_or(now).0,
        })
        .collect();
    let busy: Vec<(Option<Worker>, i64)> = jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .group_by(jobs_job::worker)
        .select((jobs_job::worker, count_star()))
        .load(conn)?;
    around.busy = busy.into_iter().filter_map(|(worker, jobs)| Some((worker?.0, jobs.unsigned_abs()))).collect();
    Ok(around)
}

/// How many due jobs of the queue come before this one, at most [`MOST_AHEAD`] and one more.
fn ahead(conn: &mut SqliteConnection, queue: &str, priority: i16, run_at: Instant, id: JobId) -> QueryResult<u32> {
    let (most, mut ahead) = (i64::from(MOST_AHEAD) + 1, 0);
    levels::walk(conn, queue, |conn, level| {
        if level < priority {
            return Ok(false);
        }
        let of_level = jobs_job::table
            .filter(jobs_job::state.eq(AVAILABLE))
            .filter(jobs_job::queue.eq(queue))
            .filter(jobs_job::priority.eq(level))
            .select(jobs_job::id);
        let rows: Vec<i64> = if level > priority {
            of_level.filter(jobs_job::run_at.le(Now)).limit(most - ahead).load(conn)?
        } else {
            let earlier: Vec<i64> = of_level.filter(jobs_job::run_at.lt(run_at)).limit(most - ahead).load(conn)?;
            let left = most - ahead - i64::try_from(earlier.len()).unwrap_or(most);
            let same =
                of_level.filter(jobs_job::run_at.eq(run_at)).filter(jobs_job::id.lt(id.0)).limit(left).load(conn)?;
            [earlier, same].concat()
        };
        ahead += i64::try_from(rows.len()).unwrap_or(most);
        Ok(ahead < most)
    })?;
    Ok(u32::try_from(ahead).unwrap_or(u32::MAX))
}
