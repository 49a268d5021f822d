//! `beat`: says that a worker lives.

use chrono::{DateTime, Utc};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_jobs_core::WorkerId;

use crate::sqlite::schema::jobs_worker;
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, Worker};

/// The time of the beat. `None`: it is not on the list any more.
pub(crate) fn beat(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<Option<DateTime<Utc>>> {
    let beat: Option<Instant> = diesel::update(jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker))))
        .set(jobs_worker::heartbeat_at.eq(Now))
        .returning(jobs_worker::heartbeat_at)
        .get_result(conn)
        .optional()?;
    Ok(beat.map(|beat| beat.0))
}
