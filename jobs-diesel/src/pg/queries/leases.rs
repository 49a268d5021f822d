//! `leases`: what a worker holds, as the database sees it.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use jobs_core::WorkerId;

use crate::pg::schema::running;

pub(crate) async fn leases(conn: &mut AsyncPgConnection, worker: WorkerId) -> QueryResult<Vec<(i64, i32)>> {
    running::table.filter(running::worker.eq(worker.0)).select((running::id, running::lease)).load(conn).await
}
