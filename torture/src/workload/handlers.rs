//! The handlers, one for each way in which the product runs a handler. They record each step before they take it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_jobs::{JobContext, Outcome, State, job};

use super::poison::Poison;
use super::work::Work;
use crate::history::{Recorder, What};

/// The backoff, and the delay of a snooze.
pub(super) const SOON: Duration = Duration::from_millis(20);

/// A macro, because the two connections do not share the type of a statement.
macro_rules! effect {
    ($work:expr, $ctx:expr) => {
        diesel::sql_query("insert into torture.effect (number, lease, worker) values ($1, $2, $3)")
            .bind::<diesel::sql_types::BigInt, _>($work.number)
            .bind::<diesel::sql_types::Integer, _>($ctx.lease().number)
            .bind::<diesel::sql_types::Uuid, _>($ctx.lease().worker.0)
    };
}

pub(super) use effect;

/// Runs on the runtime.
#[job(backoff = "fixed(20ms)")]
pub async fn ordinary(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> anyhow::Result<Outcome> {
    recorder.say(ctx, work.number, What::Start).await?;
    if !last(&work, ctx).await {
        recorder.say(ctx, work.number, What::Stopped).await?;
        bail!("asked to stop");
    }
    let end = end(&work, ctx);
    recorder.say(ctx, work.number, end).await?;
    answer(end, &work, ctx)
}

/// Runs on a thread for handlers.
#[job(backoff = "fixed(20ms)")]
pub fn blocking(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> anyhow::Result<Outcome> {
    recorder.say_blocking(ctx, work.number, What::Start)?;
    std::thread::sleep(work.time(ctx.attempt()));
    let end = end(&work, ctx);
    recorder.say_blocking(ctx, work.number, end)?;
    answer(end, &work, ctx)
}

/// Runs on the runtime, inside the transaction that finishes the job.
#[job(backoff = "fixed(20ms)")]
pub async fn transactional(
    conn: &mut AsyncPgConnection,
    work: Work,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> anyhow::Result<Outcome> {
    recorder.say(ctx, work.number, What::Start).await?;
    let end = end(&work, ctx);
    if writes(end) {
        diesel_async::RunQueryDsl::execute(effect!(work, ctx), conn).await?;
    }
    if !last(&work, ctx).await {
        recorder.say(ctx, work.number, What::Stopped).await?;
        bail!("asked to stop");
    }
    recorder.say(ctx, work.number, end).await?;
    answer(end, &work, ctx)
}

/// Runs on a thread for handlers, inside the transaction that finishes the job.
#[job(backoff = "fixed(20ms)")]
pub fn transactional_blocking(
    conn: &mut PgConnection,
    work: Work,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> anyhow::Result<Outcome> {
    recorder.say_blocking(ctx, work.number, What::Start)?;
    let end = end(&work, ctx);
    if writes(end) {
        RunQueryDsl::execute(effect!(work, ctx), conn)?;
    }
    std::thread::sleep(work.time(ctx.attempt()));
    recorder.say_blocking(ctx, work.number, end)?;
    answer(end, &work, ctx)
}

/// Never yields. So the runtime's thread that runs it runs nothing else.
#[job]
pub async fn hog(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> anyhow::Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    std::thread::sleep(work.time(ctx.attempt()));
    recorder.say(ctx, work.number, What::Ok).await?;
    Ok(())
}

/// Ends its process.
#[job]
pub async fn deadly(
    work: Work,
    poison: Poison,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> anyhow::Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    poison.take()
}

/// Crashes the server: it kills one of the server's processes, and the server ends all others. It records no event
/// before, because that would write the commit of its claim to the disk. If the claim is on the disk already, the job
/// snoozes and tries again, but only while its lease number is below 30.
#[job(backoff = "fixed(20ms)")]
pub async fn kills_backend(conn: &mut AsyncPgConnection, work: Work, ctx: &JobContext) -> anyhow::Result<Outcome> {
    use diesel::sql_types::Bool;
    use diesel_async::SimpleAsyncConnection as _;
    let written = diesel::dsl::sql::<Bool>("pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()");
    let written: bool = diesel_async::RunQueryDsl::get_result(diesel::select(written), conn).await?;
    if written && ctx.lease().number < 30 {
        return Ok(Outcome::Snooze(SOON));
    }
    conn.batch_execute("copy (select 1) to program 'kill -9 $PPID'").await?;
    bail!("number {}: the server survived", work.number)
}

/// A job for workers that must not claim the other jobs.
#[job(queue = "aside")]
pub async fn nothing() {}

/// Accepts arguments of many types, and ignores them.
#[job]
pub async fn fuzzed(number: i64, text: String, list: Vec<Option<f64>>, work: Work, map: BTreeMap<String, Vec<u8>>) {
    drop((number, text, list, work, map));
}

/// The kind that a schedule enqueues.
#[job(queue = "ticks")]
pub async fn tick() {}

/// Returns how the current attempt ends.
pub(super) fn end(work: &Work, ctx: &JobContext) -> What {
    if work.snoozes && (i64::from(ctx.lease().number) + work.number) % 2 == 0 {
        What::Snooze
    } else if ctx.attempt() <= work.failures {
        What::Fail
    } else if work.cancels {
        What::Cancel
    } else {
        What::Ok
    }
}

/// Whether the attempt writes its effect: if it succeeds, the effect must be kept, and if it fails, the effect must be
/// rolled back. A snooze would commit it, too.
fn writes(end: What) -> bool {
    matches!(end, What::Ok | What::Fail)
}

fn answer(end: What, work: &Work, ctx: &JobContext) -> anyhow::Result<Outcome> {
    match end {
        What::Snooze => Ok(Outcome::Snooze(SOON)),
        What::Cancel => Ok(Outcome::Cancel("planned".to_owned())),
        // The checker reads the lease number from the stored failure.
        What::Fail if work.panics => panic!("planned, under lease {};", ctx.lease().number),
        What::Fail => bail!("planned, under lease {};", ctx.lease().number),
        What::Start | What::Ok | What::Stopped => Ok(Outcome::Complete),
    }
}

/// Returns `true` if the attempt lasted its full time, and `false` if it was asked to stop.
async fn last(work: &Work, ctx: &JobContext) -> bool {
    let time = tokio::time::sleep(work.time(ctx.attempt()));
    tokio::select! {
        () = time => true,
        () = ctx.cancelled(), if work.polite => false,
    }
}
