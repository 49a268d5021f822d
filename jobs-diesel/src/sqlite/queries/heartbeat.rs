//! `heartbeat`: stores the time of a worker's heartbeat.

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Beat;

use crate::sqlite::schema::{jobs_installation, jobs_worker};
use crate::sqlite::time::Now;
use crate::sqlite::types::{Instant, Worker};

/// Returns the time of the heartbeat, whether the file is frozen, and what an operator asks. Returns `None` if the worker has no row any more:
/// it was declared dead.
pub(crate) fn heartbeat(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<Option<Beat>> {
    let frozen = exists(jobs_installation::table.filter(jobs_installation::frozen_at.is_not_null()));
    let beat: Option<(Instant, bool, Option<String>)> =
        diesel::update(jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker))))
            .set(jobs_worker::heartbeat_at.eq(Now))
            .returning((jobs_worker::heartbeat_at, frozen, jobs_worker::asked))
            .get_result(conn)
            .optional()?;
    // The check in the schema allows only words that can be parsed.
    Ok(beat.map(|(at, frozen, asked)| Beat { at: at.0, frozen, asked: asked.and_then(|word| word.parse().ok()) }))
}
