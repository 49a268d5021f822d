//! `heartbeat`: stores the time of a worker's heartbeat.

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Beat;

use crate::sqlite::schema::{jobs_installation, jobs_worker};
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, Worker};

/// Returns the time of the heartbeat, and whether the file is frozen. Returns `None` if the worker has no row any more:
/// it was declared dead.
pub(crate) fn heartbeat(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<Option<Beat>> {
    let frozen = exists(jobs_installation::table.filter(jobs_installation::frozen_at.is_not_null()));
    let beat: Option<(Instant, bool)> = diesel::update(jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker))))
        .set(jobs_worker::heartbeat_at.eq(Now))
        .returning((jobs_worker::heartbeat_at, frozen))
        .get_result(conn)
        .optional()?;
    Ok(beat.map(|(at, frozen)| Beat { at: at.0, frozen }))
}
