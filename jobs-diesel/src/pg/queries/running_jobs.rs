//! What runs now: counts for `stats` and the sampler, and the jobs themselves. The table has as many rows as jobs are
//! under a lease.

use chrono::{DateTime, Utc};
use diesel::dsl::{count_star, sql};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{JobId, LeasedJob, WorkerId};
use uuid::Uuid;

use super::count_jobs::CountRow;
use crate::pg::schema::running;

/// How many jobs of each queue are running.
pub(crate) async fn running_by_queue(conn: &mut AsyncPgConnection) -> QueryResult<Vec<(String, i64)>> {
    running::table.group_by(running::queue).select((running::queue, count_star())).load(conn).await
}

/// How many jobs of each queue and kind are running, as a part of a count of all jobs.
pub(crate) async fn count_running(conn: &mut AsyncPgConnection) -> QueryResult<Vec<CountRow>> {
    running::table
        .group_by((running::queue, running::kind))
        .select((
            running::queue,
            running::kind,
            sql::<Text>("'running'"),
            count_star(),
            sql::<BigInt>("0::bigint"),
            sql::<Nullable<Double>>("null::float8"),
        ))
        .load(conn)
        .await
}

/// The running jobs of this queue, or of all, that were claimed first.
pub(crate) async fn leased(
    conn: &mut AsyncPgConnection,
    queue: Option<&str>,
    limit: i64,
) -> QueryResult<Vec<LeasedJob>> {
    type Row = (i64, String, String, i16, Uuid, DateTime<Utc>, f64);
    let mut of_queue = running::table.into_boxed();
    if let Some(queue) = queue {
        of_queue = of_queue.filter(running::queue.eq(queue));
    }
    let rows: Vec<Row> = of_queue
        .order((running::claimed_at, running::id))
        .limit(limit)
        .select((
            running::id,
            running::kind,
            running::queue,
            running::attempt,
            running::worker,
            running::claimed_at,
            sql::<Double>("extract(epoch from now() - claimed_at)::float8"),
        ))
        .load(conn)
        .await?;
    let job = |(id, kind, queue, attempt, worker, since, seconds): Row| LeasedJob {
        id: JobId(id),
        kind,
        queue,
        attempt: attempt.unsigned_abs(),
        worker: WorkerId(worker),
        since,
        seconds,
    };
    Ok(rows.into_iter().map(job).collect())
}
