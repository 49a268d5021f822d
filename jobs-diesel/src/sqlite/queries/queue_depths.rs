//! `queue_depths`: how many jobs wait in each queue, and how long the oldest due one has waited. It reads the index of
//! the claim, level by level, and counts the jobs of a queue up to a limit. The limit falls with the number of queues.

use diesel::SqliteConnection;
use diesel::dsl::count_star;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, SmallInt, Text};
use diesel_jobs_core::{COUNTED_DEPTH, CountedTo, HeldCounts, JobId, LeasedJob, LongQueues, QueueCount};

use crate::sqlite::literal::{AVAILABLE, RUNNING};
use crate::sqlite::queries::levels;
use crate::sqlite::queries::waiting_queues::waiting_queues;
use crate::sqlite::schema::jobs_job;
use crate::sqlite::time::{FAR, NOW, Now};
use crate::sqlite::types::{Instant, Worker, count};

/// Whether there are at most this many jobs. It reads no more than that.
pub(crate) fn are_at_most(conn: &mut SqliteConnection, most: i64) -> QueryResult<bool> {
    let some = jobs_job::table.select(jobs_job::id).offset(most).limit(1);
    Ok(some.first::<i64>(conn).optional()?.is_none())
}

#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = BigInt)]
    jobs: i64,
}

/// Counts the jobs of a level on one side of `now`, at most `limit`.
fn counted(
    conn: &mut SqliteConnection,
    (queue, priority): (&str, i16),
    (due, now): (bool, i64),
    limit: i64,
) -> QueryResult<i64> {
    let side = if due { "<=" } else { ">" };
    let counted: Counted = diesel::sql_query(format!(
        "select count(*) as jobs from (select 1 from jobs_job where state = 'available' and queue = ?1 and priority = ?2
             and run_at {side} ?3 and run_at < {FAR} limit ?4)"
    ))
    .bind::<Text, _>(queue)
    .bind::<SmallInt, _>(priority)
    .bind::<BigInt, _>(now)
    .bind::<BigInt, _>(limit)
    .get_result(conn)?;
    Ok(counted.jobs)
}

/// A queue that was long at the last count of all jobs is counted up to this number only.
const LEAST: i64 = 100;

pub(crate) fn queue_depths(conn: &mut SqliteConnection, long: &LongQueues) -> QueryResult<Vec<QueueCount>> {
    let now: i64 = diesel::select(Now).get_result(conn)?;
    let queues = waiting_queues(conn)?;
    let number = i64::try_from(queues.len()).unwrap_or(i64::MAX).max(1);
    // Due and later jobs are counted separately, so the sum is twice as large.
    let most = (5 * COUNTED_DEPTH / number).clamp(LEAST, COUNTED_DEPTH);
    let limit = |long: &[String], queue: &String| if long.contains(queue) { LEAST } else { most };
    let mut depths = Vec::with_capacity(queues.len());
    for queue in queues {
        let zero = |limit| CountedTo { jobs: 0, limit };
        let (mut available, mut later) = (zero(limit(&long.available, &queue)), zero(limit(&long.later, &queue)));
        let mut oldest = None::<(i64, i64)>;
        levels::walk(conn, &queue, |conn, priority| {
            available.jobs += counted(conn, (&queue, priority), (true, now), available.limit - available.jobs)?;
            later.jobs += counted(conn, (&queue, priority), (false, now), later.limit - later.jobs)?;
            let first: Option<(i64, i64)> = jobs_job::table
                .filter(jobs_job::state.eq(AVAILABLE).and(jobs_job::queue.eq(&queue)))
                .filter(jobs_job::priority.eq(priority).and(jobs_job::run_at.le(now)))
                .order((jobs_job::run_at, jobs_job::id))
                .select((jobs_job::run_at, jobs_job::id))
                .first(conn)
                .optional()?;
            oldest = oldest.into_iter().chain(first).min();
            Ok(true)
        })?;
        let oldest_wait_seconds = oldest.map(|(run_at, _)| now.saturating_sub(run_at) as f64 / 1e6);
        let oldest = oldest.map(|(_, id)| JobId(id));
        depths.push(QueueCount { queue, available, later, oldest_wait_seconds, oldest });
    }
    Ok(depths)
}

#[derive(QueryableByName)]
struct Held {
    #[diesel(sql_type = BigInt)]
    due: i64,
    #[diesel(sql_type = BigInt)]
    later: i64,
}

/// How many jobs of each queue wait for their limits, or will do so later. In the index of the claim they are at the
/// end of their level, and a bounded number of them is read.
pub(crate) fn held_by_queue(conn: &mut SqliteConnection) -> QueryResult<HeldCounts> {
    // One row more than is counted, which shows that there are more.
    let mut left = COUNTED_DEPTH + 1;
    let mut held = HeldCounts::default();
    for queue in waiting_queues(conn)? {
        let (mut due, mut later) = (0, 0);
        levels::walk(conn, &queue, |conn, priority| {
            let of_level: Held = diesel::sql_query(format!(
                "select count(*) filter (where due_at <= {NOW}) as due, count(*) filter (where due_at > {NOW}) as later
                 from (select due_at from jobs_job where state = 'available' and queue = ?1 and priority = ?2 and run_at >= {FAR} limit ?3)"
            ))
            .bind::<Text, _>(&queue)
            .bind::<SmallInt, _>(priority)
            .bind::<BigInt, _>(left)
            .get_result(conn)?;
            (due, later) = (due + of_level.due, later + of_level.later);
            left -= of_level.due + of_level.later;
            Ok(true)
        })?;
        if due + later > 0 {
            held.queues.push((queue, due, later));
        }
    }
    held.is_whole = left > 0;
    Ok(held)
}

/// How many jobs of each queue are running.
pub(crate) fn running_by_queue(conn: &mut SqliteConnection) -> QueryResult<Vec<(String, i64)>> {
    jobs_job::table
        .filter(jobs_job::state.eq(RUNNING))
        .group_by(jobs_job::queue)
        .select((jobs_job::queue, count_star()))
        .load(conn)
}

/// The running jobs of this queue, or of all, that were claimed first.
pub(crate) fn leased(conn: &mut SqliteConnection, queue: Option<&str>, limit: i64) -> QueryResult<Vec<LeasedJob>> {
    type Row = (i64, String, String, i32, Option<Worker>, Option<Instant>);
    let now: i64 = diesel::select(Now).get_result(conn)?;
    let mut of_queue = jobs_job::table.filter(jobs_job::state.eq(RUNNING)).into_boxed();
    if let Some(queue) = queue {
        of_queue = of_queue.filter(jobs_job::queue.eq(queue));
    }
    let rows: Vec<Row> = of_queue
        .order((jobs_job::claimed_at, jobs_job::id))
        .limit(limit)
        .select((
            jobs_job::id,
            jobs_job::kind,
            jobs_job::queue,
            jobs_job::attempt,
            jobs_job::worker,
            jobs_job::claimed_at,
        ))
        .load(conn)?;
    // A running job has both columns. A row that a person has changed by hand is left out.
    let job = |(id, kind, queue, attempt, worker, since): Row| {
        let (worker, since) = (worker?.0, since?.0);
        let seconds = now.saturating_sub(since.timestamp_micros()) as f64 / 1e6;
        Some(LeasedJob { id: JobId(id), kind, queue, attempt: count(attempt), worker, since, seconds })
    };
    Ok(rows.into_iter().filter_map(job).collect())
}
