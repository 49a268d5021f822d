//! `rescan`: finds the first waiting job below each scan floor of a worker, where its claims do not search.
//!
//! It reads the entries of deleted jobs that vacuum has not removed yet, and those of unknown kinds. That may take
//! seconds. So it runs in parallel with the claims, in one worker at a time. A worker that finds another worker
//! rescanning tries again later.
//!
//! It may find a row that a claim is about to take. Then the next claim starts a little lower than necessary.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::storage::Claim;

use super::claim_limit::RescanLimit;
use super::scan::NOT_PAUSED;
use crate::flags::FlagsKnown;
use crate::pg::levels::{Plan, Straggler};
use crate::pg::native::{native_query, sql};

pub(crate) struct RescanQuery<'a> {
    queues: Vec<&'a str>,
    priorities: Vec<i32>,
    floors: Vec<Option<DateTime<Utc>>>,
    kinds: &'a [String],
    quarantined_at: i32,
    limit: RescanLimit,
}

impl<'a> RescanQuery<'a> {
    /// `plan` has only levels.
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        Self {
            queues: plan.scans.iter().map(|scan| claim.wanted[scan.queue].queue.as_ref()).collect(),
            priorities: plan.scans.iter().map(|scan| scan.hi).collect(),
            floors: plan.scans.iter().map(|scan| scan.floor).collect(),
            kinds: &claim.kinds,
            quarantined_at: claim.quarantined_at.into(),
            limit: RescanLimit { bypass_limit: claim.bypass_limit },
        }
    }
}

impl QueryFragment<Pg> for RescanQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select job.queue, job.priority, job.run_at, job.id
from (select " {self.limit} " as admitted) turn
left join lateral (
    select wanted.queue, low.priority, low.run_at, low.id
    from unnest(" [self.queues => Array<Text>] ", " [self.priorities => Array<Integer>] ", " [self.floors => Array<Nullable<Timestamptz>>] ")
        as wanted (queue, priority, floor)
    cross join lateral (
        select r.priority, r.run_at, r.id from jobs.ready r
        where r.queue = wanted.queue and r.priority = wanted.priority and r.run_at < wanted.floor
          and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.quarantined_at => Integer] " and " {FlagsKnown("r")} "
        order by r.run_at, r.id
        limit 1
    ) low
    where turn.admitted and " NOT_PAUSED "
) job on true
where turn.admitted"
        )
    }
}

type Row = (Nullable<Text>, Nullable<SmallInt>, Nullable<Timestamptz>, Nullable<BigInt>);

native_query!(RescanQuery<'a> -> Row);

/// One row per level that has such a job. If no level has one, one row of nulls. If another worker is rescanning, no
/// row.
#[derive(Queryable)]
pub(crate) struct RescanRow {
    queue: Option<String>,
    priority: Option<i16>,
    run_at: Option<DateTime<Utc>>,
    id: Option<i64>,
}

impl RescanRow {
    pub(crate) fn straggler(self) -> Option<Straggler> {
        Some(Straggler { queue: self.queue?, priority: self.priority?, run_at: self.run_at?, id: self.id? })
    }
}
