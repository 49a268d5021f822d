//! `cancel_enqueued_before`: ends what waited or ran before a moment, a batch at a time. Unlike a claim it waits for locked rows:
//! whoever discards the jobs of a copy must know that none is left.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Double, Timestamptz};

use super::columns::{CARRIED, ERROR, FINISHED, READY};
use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct CancelManyQuery {
    pub(crate) before: DateTime<Utc>,
    pub(crate) limit: i64,
    pub(crate) keep_seconds: f64,
}

impl QueryFragment<Pg> for CancelManyQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.ready where ctid = any(array(
        select ctid from jobs.ready where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("ready")} "
        limit " [self.limit => BigInt] " for update
    ))
    returning " READY ", null::timestamptz as claimed_at, null::uuid as worker, " CARRIED "
), running as (
    delete from jobs.running where ctid = any(array(
        select ctid from jobs.running where enqueued_at < " [self.before => Timestamptz] " and " {FlagsKnown("running")} "
        limit " [self.limit => BigInt] " for update
    ))
    returning " READY ", claimed_at, worker, " CARRIED "
), ended as (
    insert into jobs.finished (" FINISHED ", " CARRIED ")
    select id, run_at, claimed_at, now() + make_interval(secs => " [self.keep_seconds => Double] "), lease, 2, attempt, max_attempts, crashes, worker, " CARRIED "
    from (select * from waiting union all select * from running) job
    returning id, attempt, claimed_at, worker
), recorded as (
    insert into jobs.job_error (" ERROR ")
    select id, attempt, claimed_at, worker, 'cancelled', 'cancelled by an operator, with all others' from ended
)
select count(*) from ended"
        )
    }
}

native_query!(CancelManyQuery -> BigInt);
