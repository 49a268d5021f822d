//! Jobs that panic, for each place in which the user's code is called.

use std::fmt;
use std::panic::panic_any;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};
use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_jobs::{Job as _, JobBuilder, JobContext, State, job};
use serde::{Deserialize, Deserializer, Serialize};

use super::handlers::effect;
use super::work::{Shape, Work};
use crate::history::{Recorder, What};

/// The place of the panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bomb {
    /// In the body.
    Body,
    /// In the body, with a payload that is no text.
    NoText,
    /// In the body, with a payload whose destructor panics.
    Payload,
    /// When a value of the handler is dropped at the handler's end.
    Local,
    /// When a value of the handler is dropped because the time limit has passed.
    Stopped,
    /// When the arguments are decoded.
    Arguments,
    /// When the error is formatted.
    Message,
    /// When the error is dropped.
    Error,
    /// When the backoff is computed.
    Backoff,
}

impl Bomb {
    /// Each of them.
    pub const ALL: [Self; 9] = [
        Self::Body,
        Self::NoText,
        Self::Payload,
        Self::Local,
        Self::Stopped,
        Self::Arguments,
        Self::Message,
        Self::Error,
        Self::Backoff,
    ];
}

/// Longer than the time limit, and shorter than the time for which the worker waits for such a handler.
const TOO_LONG: Duration = Duration::from_millis(450);

/// Panics when it is deserialized, if it holds `true`.
#[derive(Clone, Debug, Serialize)]
pub struct Trap(pub bool);

impl Trap {
    fn of(bomb: Bomb) -> Self {
        Self(bomb == Bomb::Arguments)
    }
}

impl<'de> Deserialize<'de> for Trap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let armed = bool::deserialize(deserializer)?;
        assert!(!armed, "planned, in the arguments");
        Ok(Self(armed))
    }
}

/// Panics when it is dropped.
#[derive(Debug)]
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        // During another panic it does not: a second panic would abort any Rust program.
        assert!(std::thread::panicking(), "planned, in a destructor");
    }
}

/// An error that panics when it is formatted, or when it is dropped.
#[derive(Debug)]
struct Fragile {
    shown: bool,
    _held: Option<Held>,
}

impl fmt::Display for Fragile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.shown, "planned, in the message");
        f.write_str("planned")
    }
}

impl std::error::Error for Fragile {}

/// Panics or fails in this place, if it is in the body. Returns the value that the handler must hold until its end.
fn light(bomb: Bomb) -> Result<Option<Held>> {
    match bomb {
        Bomb::Body => panic!("planned, in the body"),
        Bomb::NoText => panic_any(7_u8),
        Bomb::Payload => panic_any(Held),
        Bomb::Message => Err(Fragile { shown: false, _held: None }.into()),
        Bomb::Error => Err(Fragile { shown: true, _held: Some(Held) }.into()),
        Bomb::Backoff => bail!("planned"),
        Bomb::Local | Bomb::Stopped => Ok(Some(Held)),
        Bomb::Arguments => bail!("the arguments were read"),
    }
}

/// The async body.
async fn tick(bomb: Bomb) -> Result<()> {
    let held = light(bomb)?;
    tokio::task::yield_now().await;
    if bomb == Bomb::Stopped {
        std::future::pending::<()>().await;
    }
    drop(held);
    Ok(())
}

/// The body on a thread, which cannot be stopped.
fn tick_blocking(bomb: Bomb) -> Result<()> {
    let held = light(bomb)?;
    if bomb == Bomb::Stopped {
        sleep(TOO_LONG);
    }
    drop(held);
    Ok(())
}

/// Runs in the runner's own task, because it has no time limit.
#[job(backoff = "fixed(20ms)")]
pub async fn bomb_at_hand(
    work: Work,
    trap: Trap,
    bomb: Bomb,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    let Trap(_) = trap;
    recorder.say(ctx, work.number, What::Start).await?;
    tick(bomb).await
}

/// Runs on a task of its own.
#[job(backoff = "fixed(20ms)", timeout = "300ms")]
pub async fn bomb_limited(
    work: Work,
    trap: Trap,
    bomb: Bomb,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    let Trap(_) = trap;
    recorder.say(ctx, work.number, What::Start).await?;
    tick(bomb).await
}

/// Runs on a thread for handlers.
#[job(backoff = "fixed(20ms)", timeout = "300ms")]
pub fn bomb_blocking(
    work: Work,
    trap: Trap,
    bomb: Bomb,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    let Trap(_) = trap;
    recorder.say_blocking(ctx, work.number, What::Start)?;
    tick_blocking(bomb)
}

/// Runs on the runtime, inside the transaction that finishes the job.
#[job(backoff = "fixed(20ms)", timeout = "300ms")]
pub async fn bomb_transactional(
    conn: &mut AsyncPgConnection,
    work: Work,
    trap: Trap,
    bomb: Bomb,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    let Trap(_) = trap;
    recorder.say(ctx, work.number, What::Start).await?;
    diesel_async::RunQueryDsl::execute(effect!(work, ctx), conn).await?;
    tick(bomb).await
}

/// Runs on a thread for handlers, inside the transaction that finishes the job.
#[job(backoff = "fixed(20ms)", timeout = "300ms")]
pub fn bomb_transactional_blocking(
    conn: &mut PgConnection,
    work: Work,
    trap: Trap,
    bomb: Bomb,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    let Trap(_) = trap;
    recorder.say_blocking(ctx, work.number, What::Start)?;
    RunQueryDsl::execute(effect!(work, ctx), conn)?;
    tick_blocking(bomb)
}

fn no_wait(attempt: u16) -> Duration {
    panic!("planned, in the backoff after attempt {attempt}");
}

/// Its backoff function panics.
#[job(backoff = no_wait)]
pub async fn bomb_backoff(work: Work, ctx: &JobContext, State(recorder): State<Recorder>) -> Result<()> {
    recorder.say(ctx, work.number, What::Start).await?;
    light(Bomb::Backoff).map(drop)
}

/// The same, inside the transaction that would have finished the job.
#[job(backoff = no_wait)]
pub fn bomb_backoff_transactional(
    conn: &mut PgConnection,
    work: Work,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    recorder.say_blocking(ctx, work.number, What::Start)?;
    RunQueryDsl::execute(effect!(work, ctx), conn)?;
    light(Bomb::Backoff).map(drop)
}

/// Makes a job with a bomb.
pub type Make = fn(Work, Bomb) -> JobBuilder;

/// Returns each way in which a bomb can be run.
pub fn ways(bomb: Bomb) -> Vec<(Shape, Make)> {
    if bomb == Bomb::Backoff {
        return vec![
            (Shape::Async, |work, _| BombBackoff { work }.priority(0)),
            (Shape::TransactionalBlocking, |work, _| BombBackoffTransactional { work }.priority(0)),
        ];
    }
    let mut ways: Vec<(Shape, Make)> = vec![
        (Shape::Async, |work, bomb| BombLimited { work, trap: Trap::of(bomb), bomb }.priority(0)),
        (Shape::Blocking, |work, bomb| BombBlocking { work, trap: Trap::of(bomb), bomb }.priority(0)),
        (Shape::Transactional, |work, bomb| BombTransactional { work, trap: Trap::of(bomb), bomb }.priority(0)),
        (Shape::TransactionalBlocking, |work, bomb| {
            BombTransactionalBlocking { work, trap: Trap::of(bomb), bomb }.priority(0)
        }),
    ];
    if bomb != Bomb::Stopped {
        ways.push((Shape::Async, |work, bomb| BombAtHand { work, trap: Trap::of(bomb), bomb }.priority(0)));
    }
    ways
}
