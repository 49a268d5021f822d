//! `retry` and `cancel`: the operator's moves. Like a worker's, each is one statement that moves the row.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Double};

use super::wake::SOMEBODY_SLEEPS;
use crate::pg::native::{native_query, sql};

/// From cancelled, discarded, scheduled or retrying to available now. Crashes start anew: somebody looked at it.
pub(crate) struct RetryQuery {
    pub(crate) id: i64,
}

impl QueryFragment<Pg> for RetryQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with ended as (
    delete from jobs.finished where id = " [self.id => BigInt] " and state in (2, 3)
    returning id, enqueued_at, lease, priority, attempt, max_attempts, kind, queue, tags, args
), waiting as (
    delete from jobs.ready where ctid = any(array(
        select ctid from jobs.ready where id = " [self.id => BigInt] " for update skip locked
    ))
    returning id, enqueued_at, lease, priority, attempt, max_attempts, kind, queue, tags, args
), returned as (
    insert into jobs.ready (id, enqueued_at, lease, priority, attempt, max_attempts, kind, queue, tags, args)
    select id, enqueued_at, lease, priority, attempt,
           greatest(max_attempts, least(attempt + 1, 32767)), kind, queue, tags, args
    from (select * from ended union all select * from waiting) job
    returning queue
)
select count(case when " SOMEBODY_SLEEPS " then pg_notify('jobs', queue) end) * 0 + count(*) from returned"
        )
    }
}

native_query!(RetryQuery -> BigInt);

/// From available or running to cancelled. A running attempt finds its lease gone.
pub(crate) struct CancelQuery {
    pub(crate) id: i64,
    pub(crate) keep_seconds: f64,
}

impl QueryFragment<Pg> for CancelQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as (
    delete from jobs.ready where ctid = any(array(
        select ctid from jobs.ready where id = " [self.id => BigInt] " for update skip locked
    ))
    returning id, run_at, enqueued_at, null::timestamptz as claimed_at, lease, priority, attempt, max_attempts, crashes,
              null::uuid as worker, kind, queue, tags, args
), running as (
    delete from jobs.running where id = " [self.id => BigInt] "
    returning id, run_at, enqueued_at, claimed_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args
), ended as (
    insert into jobs.finished (id, run_at, enqueued_at, claimed_at, lease, priority, attempt, max_attempts, crashes, worker, kind, queue, tags, args, state, expires_at)
    select job.*, 2, now() + make_interval(secs => " [self.keep_seconds => Double] ")
    from (select * from waiting union all select * from running) job
    returning id, attempt
), recorded as (
    insert into jobs.job_error (job_id, attempt, kind, message)
    select id, attempt, 'cancelled', 'cancelled by an operator' from ended
)
select count(*) from ended"
        )
    }
}

native_query!(CancelQuery -> BigInt);
