//! `register`, `deregister`, `set_idle`, `rescue_is_due`: the worker's row.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::data_types::PgInterval;
use diesel::dsl::{array, delete, exists, insert_into, not, now, select, sql, update};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::WorkerId;
use diesel_jobs_core::storage::WorkerInfo;

use crate::flags::FlagsKnown;
use crate::pg::native::RawJson;
use crate::pg::schema::{running, worker};

diesel::alias!(worker as own: Own);

/// The longest lease that the table allows.
const LONGEST_LEASE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

pub(crate) async fn register(conn: &mut AsyncPgConnection, info: &WorkerInfo) -> QueryResult<()> {
    let slots: BTreeMap<&str, usize> = info.slots.iter().map(|(queue, slots)| (queue.as_str(), *slots)).collect();
    let row = (
        worker::id.eq(info.id.0),
        worker::host.eq(info.host.replace('\0', "")),
        worker::pid.eq(info.pid.cast_signed()),
        worker::queues.eq(&info.queues),
        worker::kinds.eq(&info.kinds),
        worker::schedules.eq(RawJson(serde_json::to_vec(&info.schedules).unwrap_or_else(|_| b"{}".to_vec()))),
        worker::discard_rules.eq(RawJson(serde_json::to_vec(&info.discard_rules).unwrap_or_else(|_| b"[]".to_vec()))),
        worker::lease.eq(lease(info.lease)),
        worker::version.eq(info.version.as_ref().map(|version| version.replace('\0', ""))),
        worker::slots.eq(RawJson(serde_json::to_vec(&slots).unwrap_or_else(|_| b"{}".to_vec()))),
        worker::slots_total.eq(info.slots_total.map(|slots| i32::try_from(slots).unwrap_or(i32::MAX))),
    );
    insert_into(worker::table)
        .values(row)
        .on_conflict(worker::id)
        .do_update()
        .set((worker::heartbeat_at.eq(now), worker::draining_at.eq(None::<DateTime<Utc>>)))
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn deregister(conn: &mut AsyncPgConnection, id: WorkerId) -> QueryResult<()> {
    delete(worker::table.find(id.0)).execute(conn).await?;
    Ok(())
}

/// Stores whether the worker is idle. Returns `false` if another session has locked the row. The fetcher calls this and
/// must not wait.
pub(crate) async fn set_idle(conn: &mut AsyncPgConnection, id: WorkerId, idle: bool) -> QueryResult<bool> {
    let free = own.filter(own.field(worker::id).eq(id.0)).select(own.field(worker::id));
    let free = array::<SqlUuid, _>(free.for_no_key_update().skip_locked());
    let set = update(worker::table.filter(worker::id.eq_any(free))).set(worker::idle.eq(idle)).execute(conn).await?;
    // A worker that was declared dead has no row. Then there is no locked row, and this returns `true`.
    Ok(set > 0 || !select(exists(worker::table.find(id.0))).get_result(conn).await?)
}

/// Whether the lease of a worker has run out, or a job runs whose worker has no row, as `rescue` sees it.
pub(crate) async fn rescue_is_due(conn: &mut AsyncPgConnection) -> QueryResult<bool> {
    let dead = worker::table.filter((worker::heartbeat_at + worker::lease).lt(now));
    let its_worker = worker::table.filter(worker::id.eq(running::worker));
    let orphans = running::table.filter(not(exists(its_worker))).filter(FlagsKnown("running"));
    select(exists(dead).or(exists(orphans))).get_result(conn).await
}

/// The live workers whose declarations count. Those that drain do not tick any more.
pub(super) fn ticking() -> worker::BoxedQuery<'static, Pg> {
    let live = sql::<Bool>("heartbeat_at >= now() - lease");
    worker::table.filter(live).filter(worker::draining_at.is_null()).into_boxed()
}

/// A lease as the table stores it.
pub(super) fn lease(time: Duration) -> PgInterval {
    PgInterval::from_microseconds(i64::try_from(time.min(LONGEST_LEASE).as_micros()).unwrap_or(i64::MAX))
}
