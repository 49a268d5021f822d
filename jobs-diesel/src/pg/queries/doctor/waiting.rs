//! The waiting jobs by queue and kind, including those that wait for their time or their limits. It reads all of them.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::WaitingJobs;

const SQL: &str =
    "select queue, kind, sum(jobs)::bigint as jobs, sum(due)::bigint as due, min(oldest_due) as oldest_due
from (select queue, kind, count(*) as jobs, count(*) filter (where run_at <= now()) as due,
             min(run_at::timestamptz) filter (where run_at <= now()) as oldest_due
      from jobs.ready group by queue, kind
      union all select queue, kind, count(*), 0, null from jobs.held group by queue, kind) waiting
group by queue, kind order by queue, kind";

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
    #[diesel(sql_type = Nullable<Timestamptz>)]
    oldest_due: Option<DateTime<Utc>>,
}

pub(crate) async fn waiting(conn: &mut AsyncPgConnection) -> QueryResult<Vec<WaitingJobs>> {
    let rows: Vec<Row> = diesel::sql_query(SQL).load(conn).await?;
    let jobs = |Row { queue, kind, jobs, due, oldest_due }| WaitingJobs { queue, kind, jobs, due, oldest_due };
    Ok(rows.into_iter().map(jobs).collect())
}
