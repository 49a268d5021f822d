//! `admit`: a pass of admission, in the function `jobs.admit`. It locks the row of `jobs.admission` (`for no key update
//! skip locked`), so one session admits at a time. A pass is one call and one transaction. So a client that stops in
//! the middle cannot hold the lock, and the time limit for statements is the limit of the pass.

use std::time::Duration;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use diesel_jobs_core::storage::{Admission, Claim};

use crate::pg::native::{native_query, sql};

/// One pass. `sweeps`: it also searches for keys without a nudge, and for jobs that have expired. `careful`: it handles
/// the keys one by one.
struct AdmitQuery {
    sweeps: bool,
    careful: bool,
}

impl QueryFragment<Pg> for AdmitQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select is_busy, admitted, more, sweep_again, holds, set_apart, failures, next_token,
       " [self.sweeps => Bool] " and exists (select from jobs.expiry where start_by <= clock_timestamp())
          and not exists (select from jobs.installation where frozen_at is not null) as expired,
       jobs.may_be_full()
from jobs.admit(" [self.sweeps => Bool] ", " [self.careful => Bool] ")"
        )
    }
}

native_query!(AdmitQuery -> (Bool, BigInt, Bool, Bool, Nullable<Bool>, BigInt, Nullable<BigInt>, Nullable<Double>, Bool, Bool));

type AdmissionRow = (bool, i64, bool, bool, Option<bool>, i64, Option<i64>, Option<f64>, bool, bool);

pub(crate) async fn admit(conn: &mut AsyncPgConnection, sweeps: bool, careful: bool) -> QueryResult<Admission> {
    // There is only one row, but `get_result` would return it before the statement is committed.
    let rows: Vec<AdmissionRow> = AdmitQuery { sweeps, careful }.load(conn).await?;
    let Some((is_busy, admitted, more, sweep_again, holds, set_apart, failures, next_token, expired, may_be_full)) =
        rows.into_iter().next()
    else {
        return Ok(Admission::default());
    };
    let next_token = next_token.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let number = |number: i64| usize::try_from(number).unwrap_or_default();
    Ok(Admission {
        is_busy,
        admitted: number(admitted),
        more,
        sweep_again,
        holds,
        refused: number(set_apart),
        failures,
        next_token,
        expired,
        may_be_full,
    })
}

#[derive(QueryableByName)]
struct DueRow {
    #[diesel(sql_type = Nullable<Double>)]
    seconds: Option<f64>,
}

/// The time until the first held job is due. Reads all held jobs. Only workers that run until nothing is left ask for
/// it.
pub(crate) async fn next_held(conn: &mut AsyncPgConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    until(conn, claim, "min(greatest(run_at, token))").await
}

/// The time until the first token for which a due job waits. Reads all held jobs. Only workers that run until no job is
/// due ask for it.
pub(crate) async fn next_token(conn: &mut AsyncPgConnection, claim: &Claim) -> QueryResult<Option<Duration>> {
    until(conn, claim, "min(token) filter (where run_at <= clock_timestamp() and token > clock_timestamp())").await
}

async fn until(conn: &mut AsyncPgConnection, claim: &Claim, first: &str) -> QueryResult<Option<Duration>> {
    let queues: Vec<&str> = claim.wanted.iter().map(|wanted| &*wanted.queue).collect();
    let row: DueRow = sql_query(format!(
        "select extract(epoch from {first} - clock_timestamp())::float8 as seconds
from (
    select run_at, case when flags & 136 <> 0 then jobs.next_token_of(held) end as token
    from jobs.held where queue = any($1) and kind = any($2)
      and queue not in (select name from jobs.queue where paused)
      and kind not in (select name from jobs.kind where paused)
      and not exists (select from jobs.installation where frozen_at is not null)
) held"
    ))
    .bind::<Array<Text>, _>(queues)
    .bind::<Array<Text>, _>(&*claim.kinds)
    .get_result(conn)
    .await?;
    Ok(row.seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
}

#[derive(QueryableByName)]
struct QueueRow {
    #[diesel(sql_type = Text)]
    queue: String,
}

/// The queues in which jobs are held. Reads all held jobs. Only workers that run until nothing is left ask for it.
pub(crate) async fn held_queues(conn: &mut AsyncPgConnection) -> QueryResult<Vec<String>> {
    let rows: Vec<QueueRow> = sql_query("select distinct queue from jobs.held").load(conn).await?;
    Ok(rows.into_iter().map(|row| row.queue).collect())
}
