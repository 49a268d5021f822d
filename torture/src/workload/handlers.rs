//! The handlers, one for each way in which the product runs one. They say what they do before they do it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_jobs::{JobContext, Outcome, State, job};

use super::poison::Poison;
use super::work::Work;
use crate::history::{Recorder, What};

/// After a failure or a snooze a job comes back this much later.
const SOON: Duration = Duration::from_millis(20);

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

/// Runs on the blocking pool.
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

/// Runs on the blocking pool, inside the transaction that finishes the job.
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

/// Never yields: the thread of the runtime that runs it runs nothing else.
#[job]
pub async fn hog(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> anyhow::Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    std::thread::sleep(work.time(ctx.attempt()));
    recorder.say(ctx, work.number, What::Ok).await?;
    Ok(())
}

/// Takes its process down.
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

/// Takes the server down: one of its processes is killed, and the server ends all others. It writes nothing down before,
/// as that would bring the commit of its claim to the disk; and where that is there already it comes back, hoping for
/// better luck, for as long as its lease is one of the first.
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

/// Something to do for a worker that is to leave the other jobs alone.
#[job(queue = "aside")]
pub async fn nothing() {}

/// Takes arguments of every sort, and ignores them.
#[job]
pub async fn fuzzed(number: i64, text: String, list: Vec<Option<f64>>, work: Work, map: BTreeMap<String, Vec<u8>>) {
    drop((number, text, list, work, map));
}

/// What a schedule enqueues.
#[job(queue = "ticks")]
pub async fn tick() {}

/// How the attempt at hand ends.
fn end(work: &Work, ctx: &JobContext) -> What {
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

/// Whether the effect is written: where it must be seen, and where it must not. A snooze would commit it, too.
fn writes(end: What) -> bool {
    matches!(end, What::Ok | What::Fail)
}

fn answer(end: What, work: &Work, ctx: &JobContext) -> anyhow::Result<Outcome> {
    match end {
        What::Snooze => Ok(Outcome::Snooze(SOON)),
        What::Cancel => Ok(Outcome::Cancel("planned".to_owned())),
        // The checker reads in the stored failure whose it is.
        What::Fail if work.panics => panic!("planned, under lease {};", ctx.lease().number),
        What::Fail => bail!("planned, under lease {};", ctx.lease().number),
        What::Start | What::Ok | What::Stopped => Ok(Outcome::Complete),
    }
}

/// Whether the work was done to its end.
async fn last(work: &Work, ctx: &JobContext) -> bool {
    let time = tokio::time::sleep(work.time(ctx.attempt()));
    tokio::select! {
        () = time => true,
        () = ctx.cancelled(), if work.polite => false,
    }
}
