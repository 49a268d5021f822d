//! `admit`: a pass of admission, in the function `jobs.admit`. It locks the row of `jobs.admission` (`for no key update skip locked`), so
//! one session admits at a time. It is one call and one transaction: a client that stops in the middle cannot hold the lock, and the
//! time limit for statements is the limit of the pass.

use std::time::Duration;

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Admission, Claim};

#[derive(QueryableByName)]
struct AdmissionRow {
    #[diesel(sql_type = Bool)]
    is_busy: bool,
    #[diesel(sql_type = BigInt)]
    admitted: i64,
    #[diesel(sql_type = Bool)]
    more: bool,
    #[diesel(sql_type = Bool)]
    sweep_again: bool,
    #[diesel(sql_type = Bool)]
    holds: bool,
    #[diesel(sql_type = BigInt)]
    set_apart: i64,
    #[diesel(sql_type = Nullable<Double>)]
    next_token: Option<f64>,
}

pub(crate) async fn admit(conn: &mut AsyncPgConnection, sweeps: bool) -> QueryResult<Admission> {
    let query =
        sql_query("select is_busy, admitted, more, sweep_again, holds, set_apart, next_token from jobs.admit($1)")
            .bind::<Bool, _>(sweeps);
    // There is only one row, but `get_result` would return it before the statement is committed.
    let rows: Vec<AdmissionRow> = query.load(conn).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(Admission::default()) };
    let AdmissionRow { is_busy, admitted, more, sweep_again, holds, set_apart, next_token } = row;
    let next_token = next_token.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let number = |number: i64| usize::try_from(number).unwrap_or_default();
    Ok(Admission {
        is_busy,
        admitted: number(admitted),
        more,
        sweep_again,
        holds,
        refused: number(set_apart),
        next_token,
    })
}

#[derive(QueryableByName)]
struct DueRow {
    #[diesel(sql_type = Nullable<Double>)]
    seconds: Option<f64>,
}

/// Reads all held jobs. Only workers that run until nothing is left ask for it.
pub(crate) async fn next_held(conn: &mut AsyncPgConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    let queues: Vec<&str> = claim.wanted.iter().map(|wanted| &*wanted.queue).collect();
    let row: DueRow = sql_query(
        "select extract(epoch from min(greatest(run_at, (
    select r.next_at from jobs.rate r where flags & 8 <> 0 and r.limit_name = held.limit_name and r.limit_key = held.limit_key
))) - clock_timestamp())::float8 as seconds
from jobs.held where queue = any($1) and kind = any($2)
  and queue not in (select name from jobs.queue where paused) and kind not in (select name from jobs.kind where paused)
  and not exists (select from jobs.installation where frozen_at is not null)",
    )
    .bind::<Array<Text>, _>(queues)
    .bind::<Array<Text>, _>(&*claim.kinds)
    .get_result(conn)
    .await?;
    Ok(row.seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
}
