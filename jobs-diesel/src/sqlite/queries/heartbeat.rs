//! `heartbeat`: stores the time of a worker's heartbeat.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::dsl::{case_when, exists};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Beat;

use crate::sqlite::schema::{jobs_installation, jobs_worker};
use crate::sqlite::time::{Now, micros};
use crate::sqlite::types::{Instant, Worker};

diesel::define_sql_function! {
    fn coalesce(known: Nullable<BigInt>, new: Nullable<BigInt>) -> Nullable<BigInt>;
}

/// Stores the time, and how long after it the worker counts as dead. If the worker drains, also stores the time of the
/// first heartbeat that says so.
///
/// Returns the time of the heartbeat, whether the file is frozen, and what an operator asks. Returns `None` if the
/// worker has no row any more, or has one only for jobs that could not be rescued: it was declared dead.
pub(crate) fn heartbeat(
    conn: &mut SqliteConnection,
    worker: WorkerId,
    drains: bool,
    lease: Duration,
) -> QueryResult<Option<Beat>> {
    let frozen = exists(jobs_installation::table.filter(jobs_installation::frozen_at.is_not_null()));
    // The row of a dead worker stays while the file refuses to rescue one of its jobs.
    let lives = jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker))).filter(jobs_worker::had_others.eq(false));
    let beat: Option<(Instant, bool, Option<String>)> = diesel::update(lives)
        .set((
            jobs_worker::heartbeat_at.eq(Now),
            jobs_worker::lease_micros.eq(micros(lease)),
            jobs_worker::draining_at
                .eq(coalesce(jobs_worker::draining_at, case_when(drains.into_sql::<Bool>(), Now.nullable()))),
        ))
        .returning((jobs_worker::heartbeat_at, frozen, jobs_worker::asked))
        .get_result(conn)
        .optional()?;
    // The check in the schema allows only words that can be parsed.
    Ok(beat.map(|(at, frozen, asked)| Beat { at: at.0, frozen, asked: asked.and_then(|word| word.parse().ok()) }))
}
