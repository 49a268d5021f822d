//! `heartbeat`: one write per process, however many jobs it holds.
//!
//! It waits where another session has locked the row, and its time is that of the end of the wait: a row that says when the wait
//! began could be older than a lease. So the lock is taken before the time is asked for.

use chrono::{DateTime, Utc};
use diesel::dsl::{array, exists, update};
use diesel::prelude::*;
use diesel::sql_types::Uuid as SqlUuid;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::Beat;

use crate::pg::schema::{installation, worker};

diesel::alias!(worker as own: Own);

diesel::define_sql_function! {
    fn clock_timestamp() -> Timestamptz;
}

/// The time of the beat, and whether the database is frozen. `None`: the row is gone, the worker was declared dead.
pub(crate) async fn heartbeat(conn: &mut AsyncPgConnection, id: WorkerId) -> QueryResult<Option<Beat>> {
    let locked = own.filter(own.field(worker::id).eq(id.0)).select(own.field(worker::id)).for_no_key_update();
    let beat = update(worker::table.filter(worker::id.eq_any(array::<SqlUuid, _>(locked))))
        .set(worker::heartbeat_at.eq(clock_timestamp()))
        .returning((worker::heartbeat_at, exists(installation::table.filter(installation::frozen_at.is_not_null()))));
    // Not `get_result`: it answers with the first row, which comes before the commit.
    let rows: Vec<(DateTime<Utc>, bool)> = beat.load(conn).await?;
    Ok(rows.into_iter().next().map(|(at, frozen)| Beat { at, frozen }))
}
