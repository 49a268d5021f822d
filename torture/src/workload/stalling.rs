//! Jobs that exceed their time limit. The future of an async job stops making progress after a number of polls, so the
//! worker must drop it there. A job on a thread sleeps too long.
//!
//! The time limit includes the wait for a connection, and there are few connections. On a busy machine, attempts that
//! should succeed may time out in that wait. So the backoff grows with each attempt and is random.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use diesel::PgConnection;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use diesel_jobs::{JobContext, State, job};

use super::handlers::effect;
use super::work::Work;
use crate::history::{Recorder, What};

/// Longer than the time limit of jobs on a thread, and shorter than the time for which the worker waits for them.
const TOO_LONG: Duration = Duration::from_millis(450);

/// Polls a future `polls` times, and then stays pending.
struct Stalled<F> {
    polls: u32,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Stalled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.polls.checked_sub(1) {
            Some(left) => {
                self.polls = left;
                self.future.as_mut().poll(cx)
            }
            None => Poll::Pending,
        }
    }
}

/// Stalls the attempts that must fail, each 7 polls later than the one before.
fn stalled<F: Future>(work: &Work, ctx: &JobContext, polls: u32, future: F) -> Stalled<F> {
    let polls = if stalls(work, ctx) { polls + 7 * u32::from(ctx.attempt() - 1) } else { u32::MAX };
    Stalled { polls, future: Box::pin(future) }
}

fn stalls(work: &Work, ctx: &JobContext) -> bool {
    ctx.attempt() <= work.failures
}

/// Writes the effect in a savepoint, between statements that take a while.
async fn write(conn: &mut AsyncPgConnection, work: &Work, ctx: &JobContext) -> Result<()> {
    let slowly = || diesel::sql_query("select pg_sleep(0.002)");
    slowly().execute(conn).await?;
    conn.transaction(async |conn| {
        slowly().execute(conn).await?;
        effect!(work, ctx).execute(conn).await?;
        slowly().execute(conn).await
    })
    .await?;
    slowly().execute(conn).await?;
    Ok(())
}

/// Runs on the runtime.
#[job(backoff = "exponential(20ms, 2s)", timeout = "250ms")]
pub async fn stalling(work: Work, polls: u32, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    stalled(&work, ctx, polls, async {
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        recorder.say(ctx, work.number, What::Ok).await
    })
    .await
}

/// Runs on the runtime, inside the transaction that finishes the job.
#[job(backoff = "exponential(20ms, 2s)", timeout = "250ms")]
pub async fn stalling_transactional(
    conn: &mut AsyncPgConnection,
    work: Work,
    polls: u32,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    stalled(&work, ctx, polls, async {
        write(conn, &work, ctx).await?;
        recorder.say(ctx, work.number, What::Ok).await
    })
    .await
}

/// Runs on a thread for handlers.
#[job(backoff = "exponential(20ms, 2s)", timeout = "250ms")]
pub fn stalling_blocking(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say_blocking(ctx, work.number, What::Start)?;
    if stalls(&work, ctx) {
        sleep(TOO_LONG);
    }
    recorder.say_blocking(ctx, work.number, What::Ok)
}

/// Runs on a thread for handlers, inside the transaction that finishes the job.
#[job(backoff = "exponential(20ms, 2s)", timeout = "250ms")]
pub fn stalling_transactional_blocking(
    conn: &mut PgConnection,
    work: Work,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    recorder.say_blocking(ctx, work.number, What::Start)?;
    diesel::RunQueryDsl::execute(effect!(work, ctx), conn)?;
    if stalls(&work, ctx) {
        sleep(TOO_LONG);
    }
    recorder.say_blocking(ctx, work.number, What::Ok)
}

/// Has no time limit, and does not end by itself.
#[job(backoff = "fixed(20ms)")]
pub async fn endless(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    std::future::pending().await
}

/// Has no time limit either. It writes its effect, and then runs a statement that does not end by itself.
#[job(backoff = "fixed(20ms)")]
pub async fn endless_transactional(
    conn: &mut AsyncPgConnection,
    work: Work,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    effect!(work, ctx).execute(conn).await?;
    recorder.say(ctx, work.number, What::Start).await?;
    diesel::sql_query("select pg_sleep(3600)").execute(conn).await?;
    Ok(())
}
