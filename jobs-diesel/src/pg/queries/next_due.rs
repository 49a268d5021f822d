//! `next_due`: how long until the earliest waiting job of the wanted queues and kinds, in seconds. Zero while the
//! [gate](Gate) is full: then the claim before was refused there, most likely, and the walk would cost what a claim's does.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Double, Integer, Nullable, Text};
use jobs_core::storage::Claim;

use super::gate::Gate;
use super::scan::{Lanes, NOT_PAUSED};
use crate::pg::lanes::Scan;
use crate::pg::native::{native_query, sql};

pub(crate) struct NextDueQuery<'a> {
    queues: Vec<&'a str>,
    kinds: &'a [String],
    suspect_at: i32,
    lanes: Lanes<'a>,
    gate: Gate,
}

impl<'a> NextDueQuery<'a> {
    pub(crate) fn new(claim: &'a Claim, scans: &'a [Scan]) -> Self {
        let queues = claim.wanted.iter().map(|wanted| wanted.queue.as_str()).collect();
        let (lanes, gate) = (Lanes::new(scans), Gate { insist: claim.insist });
        Self { queues, kinds: &claim.kinds, suspect_at: claim.suspect_at.into(), lanes, gate }
    }
}

impl QueryFragment<Pg> for NextDueQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select case when " {self.gate} " then (select extract(epoch from min(job.run_at) - clock_timestamp())
from unnest(" [self.queues => Array<Text>] ") as wanted (queue)
cross join lateral (
    select job.run_at
    from " {self.lanes} "
    cross join lateral (
        select r.run_at from jobs.ready r
        where r.queue = scan.queue and r.priority = lane.priority
          and r.run_at >= coalesce(scan.floor, '-infinity')
          and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.suspect_at => Integer] "
        order by r.run_at, r.id
        limit 1
    ) job
    where scan.queue = wanted.queue
) job
where " NOT_PAUSED ") else 0 end::float8"
        )
    }
}

native_query!(NextDueQuery<'a> -> Nullable<Double>);
