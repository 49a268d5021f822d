//! The waiting jobs by queue and kind, including those that wait for their time or their limits. It reads all of them.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_jobs_core::storage::WaitingJobs;

use crate::sqlite::time::NOW;
use crate::sqlite::types::Instant;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = BigInt)]
    jobs: i64,
    #[diesel(sql_type = BigInt)]
    due: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    oldest_due: Option<Instant>,
}

pub(crate) fn waiting(conn: &mut SqliteConnection) -> QueryResult<Vec<WaitingJobs>> {
    // The `run_at` of jobs that wait for their limits is in the year 9999.
    let rows: Vec<Row> = diesel::sql_query(format!(
        "select queue, kind, count(*) as jobs, count(*) filter (where run_at <= {NOW}) as due,
                min(run_at) filter (where run_at <= {NOW}) as oldest_due
         from jobs_job where state = 'available' group by queue, kind order by queue, kind"
    ))
    .load(conn)?;
    let jobs = |Row { queue, kind, jobs, due, oldest_due }| WaitingJobs {
        queue,
        kind,
        jobs,
        due,
        oldest_due: oldest_due.map(|at| at.0),
    };
    Ok(rows.into_iter().map(jobs).collect())
}
