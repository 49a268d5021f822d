//! The measured jobs. Each does nothing, in the form that its name states, with the arguments
//! `{"id":1,"name":"hello"}`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs::handler::{BatchContext, BatchHandled, HandleBatchIn};
use diesel_jobs::prelude::*;
use serde::{Deserialize, Serialize};

use crate::say::say;

/// The queue of [`slow`]. Workers that must be busy serve it.
pub(crate) const SLOW_QUEUE: &str = "slow";

/// An `async fn`. Its history is kept, which is the default.
#[job]
pub(crate) async fn noop(id: i64, name: String) {
    let _ = (id, name);
}

/// A plain `fn`, which runs on a thread for handlers.
#[job]
pub(crate) fn noop_sync(id: i64, name: String) {
    let _ = (id, name);
}

/// A transactional handler: each job has a transaction of its own, in which it is finished.
#[job]
pub(crate) async fn noop_transactional(conn: &mut AsyncPgConnection, id: i64, name: String) {
    let _ = (conn, id, name);
}

diesel::table! {
    written (id) {
        id -> BigInt,
        name -> Text,
    }
}

/// The table of the jobs that write.
pub(crate) const WRITTEN: &str = "create table written (id bigint not null, name text not null)";

async fn write(conn: &mut AsyncPgConnection, id: i64, name: &str) -> QueryResult<()> {
    let row = (written::id.eq(id), written::name.eq(name));
    diesel::insert_into(written::table).values(row).execute(conn).await.map(drop)
}

/// Inserts one row in its own transaction.
#[job]
pub(crate) async fn write_one(conn: &mut AsyncPgConnection, id: i64, name: &str) -> QueryResult<()> {
    write(conn, id, name).await
}

/// Inserts one row. Up to 100 such jobs run in one transaction.
#[derive(Serialize, Deserialize, Job)]
#[job(batch(max = 100), connection = AsyncPgConnection)]
pub(crate) struct WriteInBatch {
    pub(crate) id: i64,
    pub(crate) name: String,
}

impl HandleBatchIn<AsyncPgConnection> for WriteInBatch {
    async fn handle(jobs: Vec<Self>, conn: &mut AsyncPgConnection, ctx: BatchContext) -> BatchHandled {
        for job in &jobs {
            write(conn, job.id, &job.name).await.map_err(JobError::new)?;
        }
        ctx.complete_all()
    }
}

/// An `async fn` whose history is not kept.
#[job(retain = "none")]
pub(crate) async fn noop_forgotten(id: i64, name: String) {
    let _ = (id, name);
}

/// Occupies a slot for 250 ms.
#[job(queue = "slow")]
pub(crate) async fn slow(id: i64, name: String) {
    let _ = (id, name);
    tokio::time::sleep(Duration::from_millis(250)).await;
}

/// Takes a millisecond.
#[job]
pub(crate) async fn brief(id: i64, name: String) {
    let _ = (id, name);
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// One at a time for each id.
#[job(concurrency(limit = 1, by(id)))]
pub(crate) async fn noop_keyed(id: i64, name: String) {
    let _ = (id, name);
}

/// Ten at a time.
#[job(concurrency(limit = 10))]
pub(crate) async fn noop_limited(id: i64, name: String) {
    let _ = (id, name);
}

/// Ten at a time, each of which takes a millisecond.
#[job(concurrency(limit = 10))]
pub(crate) async fn brief_limited(id: i64, name: String) {
    let _ = (id, name);
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// One job for each id.
#[job(unique(by(id)))]
pub(crate) async fn noop_unique(id: i64, name: String) {
    let _ = (id, name);
}

/// Prints its start time to standard output, by the machine's clock.
#[job]
pub(crate) async fn probe(id: i64, name: String, ctx: &JobContext) {
    let _ = (id, name);
    say_start(ctx);
}

/// A [`probe`] with a limit that is never full.
#[job(concurrency(limit = 1, by(id)))]
pub(crate) async fn probe_limited(id: i64, name: String, ctx: &JobContext) {
    let _ = (id, name);
    say_start(ctx);
}

/// Prints its id to standard output.
#[job]
pub(crate) async fn noop_told(id: i64, name: String, ctx: &JobContext) {
    let _ = (id, name);
    say_ran(ctx.id());
}

/// Tells the parent that a job runs.
pub(crate) fn say_ran(id: impl std::fmt::Display) {
    say(&format!("ran {id}"));
}

fn say_start(ctx: &JobContext) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    say(&format!("started {} {}", ctx.id(), now.as_nanos()));
}
