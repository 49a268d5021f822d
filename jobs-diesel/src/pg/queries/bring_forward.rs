//! `bring_forward`: makes the first waiting job due by moving all of them to an earlier time. For tests that skip time,
//! in which no other worker admits. Locks the rows that it moves. Tokens of rates come, and jobs expire, by the same
//! span earlier.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Double, Text};

use crate::flags::FlagsKnown;
use crate::pg::native::{native_query, sql};

pub(crate) struct BringForwardQuery<'a> {
    pub(crate) queues: &'a [String],
    pub(crate) kinds: &'a [String],
}

impl QueryFragment<Pg> for BringForwardQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with waiting as materialized (
    select r.ctid, r.run_at from jobs.ready r
    where r.queue = any(" [self.queues => Array<Text>] ") and r.kind = any(" [self.kinds => Array<Text>] ") and " {FlagsKnown("r")} "
    for update
), held as materialized (
    select h.ctid, h.run_at, case when h.flags & 136 <> 0 then jobs.next_token_of(h) end as next_at
    from jobs.held h
    where h.queue = any(" [self.queues => Array<Text>] ") and h.kind = any(" [self.kinds => Array<Text>] ") and " {FlagsKnown("h")} "
    for update
), ahead as materialized (
    select min(run_at) - clock_timestamp() as span from (select run_at from waiting union all select greatest(run_at, next_at) from held) job
), moved_held as (
    update jobs.held h set run_at = h.run_at - ahead.span
    from held, ahead where h.ctid = held.ctid and ahead.span > interval '0'
), tokens as (
    update jobs.rate r set full_at = r.full_at - ahead.span, next_at = r.next_at - ahead.span, run_at = '-infinity' from ahead where ahead.span > interval '0'
), expiring as (
    update jobs.expiry e set start_by = e.start_by - ahead.span from ahead where ahead.span > interval '0'
), moved as (
    update jobs.ready r set run_at = r.run_at - ahead.span
    from waiting, ahead where r.ctid = waiting.ctid and ahead.span > interval '0'
)
select greatest(coalesce(extract(epoch from span), 0), 0)::float8 from ahead"
        )
    }
}

native_query!(BringForwardQuery<'a> -> Double);
