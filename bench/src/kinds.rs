//! The jobs that are measured: each does nothing, in the form its name tells, with arguments `{"id":1,"name":"hello"}`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diesel_async::AsyncPgConnection;
use diesel_jobs::prelude::*;

use crate::say::say;

/// The queue of [`slow`], served by workers that shall be busy.
pub(crate) const SLOW_QUEUE: &str = "slow";

/// An `async fn`; its history is kept, as by default.
#[job]
pub(crate) async fn noop(id: i64, name: String) {
    let _ = (id, name);
}

/// A plain `fn`, which runs on the blocking pool.
#[job]
pub(crate) fn noop_sync(id: i64, name: String) {
    let _ = (id, name);
}

/// Transactional: a transaction of its own, in which the job is finished.
#[job]
pub(crate) async fn noop_transactional(conn: &mut AsyncPgConnection, id: i64, name: String) {
    let _ = (conn, id, name);
}

/// An `async fn` of which no history is kept.
#[job(retain = "none")]
pub(crate) async fn noop_forgotten(id: i64, name: String) {
    let _ = (id, name);
}

/// Keeps a slot for a while.
#[job(queue = "slow")]
pub(crate) async fn slow(id: i64, name: String) {
    let _ = (id, name);
    tokio::time::sleep(Duration::from_millis(250)).await;
}

/// Says on standard output when it started, by the clock of the machine.
#[job]
pub(crate) async fn probe(id: i64, name: String, ctx: &JobContext) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let _ = (id, name);
    say(&format!("started {} {}", ctx.id(), now.as_nanos()));
}
