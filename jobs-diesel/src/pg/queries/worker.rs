//! `register`, `deregister`, `set_idle`: the worker's row.

use std::time::Duration;

use diesel::data_types::PgInterval;
use diesel::dsl::{delete, insert_into, now, update};
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use jobs_core::WorkerId;
use jobs_core::storage::WorkerInfo;

use crate::pg::schema::worker;

/// What the table admits.
const LONGEST_LEASE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

pub(crate) async fn register(conn: &mut AsyncPgConnection, info: &WorkerInfo) -> QueryResult<()> {
    let row = (
        worker::id.eq(info.id.0),
        worker::host.eq(info.host.replace('\0', "")),
        worker::pid.eq(info.pid.cast_signed()),
        worker::queues.eq(&info.queues),
        worker::lease.eq(interval(info.lease.min(LONGEST_LEASE))),
    );
    insert_into(worker::table)
        .values(row)
        .on_conflict(worker::id)
        .do_update()
        .set(worker::heartbeat_at.eq(now))
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn deregister(conn: &mut AsyncPgConnection, id: WorkerId) -> QueryResult<()> {
    delete(worker::table.find(id.0)).execute(conn).await?;
    Ok(())
}

pub(crate) async fn set_idle(conn: &mut AsyncPgConnection, id: WorkerId, idle: bool) -> QueryResult<()> {
    update(worker::table.find(id.0)).set(worker::idle.eq(idle)).execute(conn).await?;
    Ok(())
}

fn interval(span: Duration) -> PgInterval {
    PgInterval::from_microseconds(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
}
