//! `heartbeat`: one write per process, however many jobs it holds.

use diesel::dsl::{now, update};
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use jobs_core::WorkerId;

use crate::pg::schema::worker;

/// `false`: the row is gone, the worker was declared dead.
pub(crate) async fn heartbeat(conn: &mut AsyncPgConnection, id: WorkerId) -> QueryResult<bool> {
    let beaten = update(worker::table.find(id.0)).set(worker::heartbeat_at.eq(now)).execute(conn).await?;
    Ok(beaten == 1)
}
