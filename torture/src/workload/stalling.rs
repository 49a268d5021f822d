//! Jobs whose future goes so far and no farther: after a number of polls it makes no progress any more, and whoever runs it
//! has to drop it right there. Those on a thread just stay too long.
//!
//! The time limit holds for the wait for a connection, too, and there are few. On a busy machine attempts end there that should
//! end well, so each job waits longer before the next: not all come again at once for ever.

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

/// Longer than the time limit of those on a thread, and less than they are waited for.
const TOO_LONG: Duration = Duration::from_millis(450);

/// Polls a future so many times, and then never again.
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

/// Stalls in the attempts that are planned to fail, each time a few polls later.
fn stalled<F: Future>(work: &Work, ctx: &JobContext, polls: u32, future: F) -> Stalled<F> {
    let polls = if stalls(work, ctx) { polls + 7 * u32::from(ctx.attempt() - 1) } else { u32::MAX };
    Stalled { polls, future: Box::pin(future) }
}

fn stalls(work: &Work, ctx: &JobContext) -> bool {
    ctx.attempt() <= work.failures
}

/// Its effect stands in a savepoint, between statements that take a while.
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

/// Runs on the blocking pool.
#[job(backoff = "exponential(20ms, 2s)", timeout = "250ms")]
pub fn stalling_blocking(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say_blocking(ctx, work.number, What::Start)?;
    if stalls(&work, ctx) {
        sleep(TOO_LONG);
    }
    recorder.say_blocking(ctx, work.number, What::Ok)
}

/// Runs on the blocking pool, inside the transaction that finishes the job.
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

/// Has no limit, and ends only if somebody ends it.
#[job(backoff = "fixed(20ms)")]
pub async fn endless(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    std::future::pending().await
}

/// The same, with its effect written and a statement under way.
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
