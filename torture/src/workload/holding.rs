//! Jobs that lock a row while they run. Their next attempt needs the same row.

use anyhow::Result;
use diesel::PgConnection;
use diesel::sql_types::{BigInt, Double, Integer};
use diesel_async::AsyncPgConnection;
use diesel_jobs::{JobContext, State, job};

use super::handlers::effect;
use super::work::Work;
use crate::history::{Recorder, What};

/// The table of the rows.
pub const TABLE: &str = "torture.held";

const LOCK: &str = "update torture.held set lease = $2 where number = $1";

/// Runs inside the transaction that finishes the job. It waits inside a statement, or between two.
#[job(backoff = "fixed(20ms)")]
pub async fn holding(
    conn: &mut AsyncPgConnection,
    work: Work,
    inside: bool,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    use diesel_async::RunQueryDsl as _;
    let lock = diesel::sql_query(LOCK).bind::<BigInt, _>(work.number).bind::<Integer, _>(ctx.lease().number);
    lock.execute(conn).await?;
    effect!(work, ctx).execute(conn).await?;
    recorder.say(ctx, work.number, What::Start).await?;
    let time = work.time(ctx.attempt());
    if inside {
        diesel::sql_query("select pg_sleep($1)").bind::<Double, _>(time.as_secs_f64()).execute(conn).await?;
    } else {
        tokio::time::sleep(time).await;
    }
    recorder.say(ctx, work.number, What::Ok).await
}

/// The same on a thread for handlers.
#[job(backoff = "fixed(20ms)")]
pub fn holding_blocking(
    conn: &mut PgConnection,
    work: Work,
    ctx: &JobContext,
    State(recorder): State<Recorder>,
) -> Result<()> {
    use diesel::RunQueryDsl as _;
    let lock = diesel::sql_query(LOCK).bind::<BigInt, _>(work.number).bind::<Integer, _>(ctx.lease().number);
    lock.execute(conn)?;
    effect!(work, ctx).execute(conn)?;
    recorder.say_blocking(ctx, work.number, What::Start)?;
    std::thread::sleep(work.time(ctx.attempt()));
    recorder.say_blocking(ctx, work.number, What::Ok)
}
