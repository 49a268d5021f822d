//! `heartbeat`: one write per process, independent of the number of its jobs.
//!
//! If another session has locked the row, the statement waits. It stores the time of the end of this wait, because the
//! time of its beginning could be older than a lease. So it locks the row before it reads the clock.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::dsl::{array, case_when, exists, update};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Beat;

use super::worker::lease;
use crate::pg::schema::{installation, worker};

diesel::alias!(worker as own: Own);

diesel::define_sql_function! {
    fn clock_timestamp() -> Timestamptz;
}

diesel::define_sql_function! {
    fn coalesce(known: Nullable<Timestamptz>, new: Nullable<Timestamptz>) -> Nullable<Timestamptz>;
}

/// Stores the time, and how long after it the worker counts as dead. If the worker drains, also stores the time of the
/// first heartbeat that says so.
///
/// Returns the time of the heartbeat, whether the database is frozen, and what an operator asks. Returns `None` if the
/// worker has no row any more, or has one only for jobs that could not be rescued: it was declared dead.
pub(crate) async fn heartbeat(
    conn: &mut AsyncPgConnection,
    id: WorkerId,
    drains: bool,
    new_lease: Duration,
) -> QueryResult<Option<Beat>> {
    // The row of a dead worker stays while the database refuses to rescue one of its jobs.
    let lives = own.filter(own.field(worker::id).eq(id.0)).filter(own.field(worker::had_others).eq(false));
    let locked = lives.select(own.field(worker::id)).for_no_key_update();
    let beat = update(worker::table.filter(worker::id.eq_any(array::<SqlUuid, _>(locked))))
        .set((
            worker::heartbeat_at.eq(clock_timestamp()),
            worker::lease.eq(lease(new_lease)),
            worker::draining_at
                .eq(coalesce(worker::draining_at, case_when(drains.into_sql::<Bool>(), clock_timestamp().nullable()))),
        ))
        .returning((
            worker::heartbeat_at,
            exists(installation::table.filter(installation::frozen_at.is_not_null())),
            worker::asked,
        ));
    // Not `get_result`, because it returns the first row, which arrives before the commit.
    let rows: Vec<(DateTime<Utc>, bool, Option<String>)> = beat.load(conn).await?;
    // The check of the table allows only words that can be parsed.
    let beat = |(at, frozen, asked): (_, _, Option<String>)| Beat {
        at,
        frozen,
        asked: asked.and_then(|word| word.parse().ok()),
    };
    Ok(rows.into_iter().next().map(beat))
}
