//! `rescan`: the first waiting job below each of a worker's scan floors, where its claims do not look.
//!
//! It walks over the entries of all jobs that are gone and that no vacuum could remove yet, and over those of unknown kinds, and
//! may take a while; so it runs beside the claims, one worker at a time. Whoever finds another at it comes back later.
//!
//! A row that a claim is about to take may be among what it finds: then the next claim starts a little too far below.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, SmallInt, Text, Timestamptz};
use diesel_jobs_core::storage::Claim;

use super::claim_limit::Alone;
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
    alone: Alone,
}

impl<'a> RescanQuery<'a> {
    /// `plan`: its levels.
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        Self {
            queues: plan.scans.iter().map(|scan| claim.wanted[scan.queue].queue.as_ref()).collect(),
            priorities: plan.scans.iter().map(|scan| scan.hi).collect(),
            floors: plan.scans.iter().map(|scan| scan.floor).collect(),
            kinds: &claim.kinds,
            quarantined_at: claim.quarantined_at.into(),
            alone: Alone { bypass_limit: claim.bypass_limit },
        }
    }
}

impl QueryFragment<Pg> for RescanQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select job.queue, job.priority, job.run_at, job.id
from (select " {self.alone} " as admitted) turn
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

/// One per level that has such a job; one of nulls where none has, and none where another worker looks.
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
