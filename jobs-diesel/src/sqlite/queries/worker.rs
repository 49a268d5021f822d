//! The list of worker processes.

use diesel::SqliteConnection;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_jobs_core::storage::WorkerInfo;
use diesel_jobs_core::{WorkerId, WorkerRecord};

use crate::sqlite::schema::jobs_worker;
use crate::sqlite::time::{Now, micros};
use crate::sqlite::types::{Instant, Names, Worker};

/// Registers a worker. It can be repeated, because the answer to the first call may have been lost.
pub(crate) fn register(conn: &mut SqliteConnection, worker: &WorkerInfo) -> QueryResult<()> {
    diesel::replace_into(jobs_worker::table)
        .values((
            jobs_worker::id.eq(Worker(worker.id)),
            jobs_worker::host.eq(&worker.host),
            jobs_worker::pid.eq(i32::try_from(worker.pid).unwrap_or(i32::MAX)),
            jobs_worker::queues.eq(Names(worker.queues.clone())),
            jobs_worker::lease_micros.eq(micros(worker.lease)),
        ))
        .execute(conn)
        .map(drop)
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
        ))
        .load::<(Worker, String, i32, Names, Instant, Instant, bool)>(conn)?;
    Ok(rows
        .into_iter()
        .map(|(id, host, pid, queues, started_at, heartbeat_at, alive)| WorkerRecord {
            id: id.0,
            host,
            pid,
            queues: queues.0,
            started_at: started_at.0,
            heartbeat_at: heartbeat_at.0,
            alive,
        })
        .collect())
}
