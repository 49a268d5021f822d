//! `beat`: says that a worker lives.

use diesel::SqliteConnection;
use diesel::prelude::*;
use jobs_core::WorkerId;

use crate::sqlite::schema::jobs_worker;
use crate::sqlite::time::Now;
use crate::sqlite::types::Worker;

/// `false`: it is not on the list any more.
pub(crate) fn beat(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<bool> {
    let beaten = diesel::update(jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker))))
        .set(jobs_worker::heartbeat_at.eq(Now))
        .execute(conn)?;
    Ok(beaten == 1)
}
