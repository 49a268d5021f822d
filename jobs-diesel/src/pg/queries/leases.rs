//! `leases`: the valid leases of a worker.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::{JobId, WorkerId};

use crate::pg::schema::running;

pub(crate) async fn leases(
    conn: &mut AsyncPgConnection,
    worker: WorkerId,
    among: Option<&[JobId]>,
) -> QueryResult<Vec<(i64, i32)>> {
    let standing = running::table.filter(running::worker.eq(worker.0)).select((running::id, running::lease));
    match among {
        Some(jobs) => standing.filter(running::id.eq_any(jobs.iter().map(|job| job.0))).load(conn).await,
        None => standing.load(conn).await,
    }
}
