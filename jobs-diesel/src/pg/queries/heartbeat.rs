//! `heartbeat`: one write per process, however many jobs it holds.

use chrono::{DateTime, Utc};
use diesel::dsl::{now, update};
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use jobs_core::WorkerId;

use crate::pg::schema::worker;

/// The time of the beat. `None`: the row is gone, the worker was declared dead.
pub(crate) async fn heartbeat(conn: &mut AsyncPgConnection, id: WorkerId) -> QueryResult<Option<DateTime<Utc>>> {
    let beat = update(worker::table.find(id.0)).set(worker::heartbeat_at.eq(now)).returning(worker::heartbeat_at);
    // Not `get_result`: it answers with the first row, which comes before the commit.
    Ok(beat.load(conn).await?.into_iter().next())
}
