//! The list of worker processes.

use std::collections::BTreeMap;

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sqlite::Sqlite;
use diesel_jobs_core::storage::WorkerInfo;
use diesel_jobs_core::{WorkerId, WorkerRecord};

use crate::sqlite::schema::jobs_worker;
use crate::sqlite::time::{Now, micros};
use crate::sqlite::types::{Instant, Names, Worker};

/// Registers a worker. It can be repeated, because the answer to the first call may have been lost.
pub(crate) fn register(conn: &mut SqliteConnection, worker: &WorkerInfo) -> QueryResult<()> {
    let slots: BTreeMap<&str, usize> = worker.slots.iter().map(|(queue, slots)| (queue.as_str(), *slots)).collect();
    diesel::replace_into(jobs_worker::table)
        .values((
            jobs_worker::id.eq(Worker(worker.id)),
            jobs_worker::host.eq(&worker.host),
            jobs_worker::pid.eq(i32::try_from(worker.pid).unwrap_or(i32::MAX)),
            jobs_worker::queues.eq(Names(worker.queues.clone())),
            jobs_worker::kinds.eq(Names(worker.kinds.clone())),
            jobs_worker::schedules.eq(serde_json::to_string(&worker.schedules).unwrap_or_else(|_| "{}".to_owned())),
            jobs_worker::discard_rules
                .eq(serde_json::to_string(&worker.discard_rules).unwrap_or_else(|_| "[]".to_owned())),
            jobs_worker::lease_micros.eq(micros(worker.lease)),
            jobs_worker::version.eq(&worker.version),
            jobs_worker::slots.eq(serde_json::to_string(&slots).unwrap_or_else(|_| "{}".to_owned())),
            jobs_worker::slots_total.eq(worker.slots_total.map(|slots| i32::try_from(slots).unwrap_or(i32::MAX))),
        ))
        .execute(conn)
        .map(drop)
}

/// The live workers whose declarations count. Those that drain do not tick any more.
pub(super) fn ticking() -> jobs_worker::BoxedQuery<'static, Sqlite> {
    let live = (jobs_worker::heartbeat_at + jobs_worker::lease_micros).ge(Now);
    jobs_worker::table.filter(live).filter(jobs_worker::draining_at.is_null()).into_boxed()
}

/// Deletes the worker's row.
pub(crate) fn deregister(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<()> {
    diesel::delete(jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker)))).execute(conn).map(drop)
}

/// Whether the worker is registered.
pub(crate) fn is_registered(conn: &mut SqliteConnection, worker: WorkerId) -> QueryResult<bool> {
    diesel::select(exists(jobs_worker::table.filter(jobs_worker::id.eq(Worker(worker))))).get_result(conn)
}

/// The number of registered workers.
pub(crate) fn number(conn: &mut SqliteConnection) -> QueryResult<i64> {
    jobs_worker::table.count().get_result(conn)
}

type AskedRow = (Option<String>, Option<Instant>, Option<String>, Option<Instant>);
type SlotsRow = (Option<String>, Option<i32>);
type KnownRow = (Option<Names>, Option<String>);
type Row = (Worker, String, i32, Names, Instant, Instant, bool, Option<String>, SlotsRow, AskedRow, KnownRow);

/// All registered workers, oldest first.
pub(crate) fn list(conn: &mut SqliteConnection) -> QueryResult<Vec<WorkerRecord>> {
    let rows = jobs_worker::table
        .order((jobs_worker::started_at, jobs_worker::id))
        .select((
            jobs_worker::id,
            jobs_worker::host,
            jobs_worker::pid,
            jobs_worker::queues,
            jobs_worker::started_at,
            jobs_worker::heartbeat_at,
            (jobs_worker::heartbeat_at + jobs_worker::lease_micros).ge(Now),
            jobs_worker::version,
            (jobs_worker::slots, jobs_worker::slots_total),
            (jobs_worker::asked, jobs_worker::asked_at, jobs_worker::asked_by, jobs_worker::draining_at),
            (jobs_worker::kinds, jobs_worker::schedules),
        ))
        .load::<Row>(conn)?;
    Ok(rows
        .into_iter()
        .map(
            |(
                id,
                host,
                pid,
                queues,
                started_at,
                heartbeat_at,
                alive,
                version,
                (slots, slots_total),
                (asked, at, by, draining_at),
                (kinds, schedules),
            )| {
                WorkerRecord {
                    id: id.0,
                    host,
                    pid,
                    queues: queues.0,
                    started_at: started_at.0,
                    heartbeat_at: heartbeat_at.0,
                    alive,
                    version,
                    slots: slots.and_then(|slots| serde_json::from_str(&slots).ok()).unwrap_or_default(),
                    slots_total: slots_total.map(i32::unsigned_abs),
                    kinds: kinds.map(|kinds| kinds.0),
                    schedules: schedules.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
                    // The check in the schema allows only words that can be parsed.
                    asked: asked.and_then(|word| word.parse().ok()),
                    asked_at: at.map(|at| at.0),
                    asked_by: by,
                    draining_at: draining_at.map(|at| at.0),
                }
            },
        )
        .collect())
}
