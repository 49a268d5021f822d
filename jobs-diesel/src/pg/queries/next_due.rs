//! `next_due`: how long until the earliest waiting job of the wanted queues and kinds is due, in seconds. Returns zero
//! while the claim limit is reached. Then the limit most likely refused the claim before, too, and this search would
//! cost as much as that of a claim.
//!
//! It searches only as far ahead as its worker is going to sleep. So it does not read jobs of unknown kinds that are
//! scheduled for later.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Double, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::Claim;

use super::claim_limit::ClaimLimit;
use super::scan::{NOT_PAUSED, PAUSED, Scans};
use crate::flags::FlagsKnown;
use crate::pg::levels::Plan;
use crate::pg::native::{native_query, seconds, sql};

pub(crate) struct NextDueQuery<'a> {
    kinds: &'a [String],
    quarantined_at: i32,
    within: f64,
    scans: Scans<'a>,
    claim_limit: ClaimLimit,
}

impl<'a> NextDueQuery<'a> {
    pub(crate) fn new(claim: &'a Claim, plan: &Plan, within: std::time::Duration) -> Self {
        Self {
            kinds: &claim.kinds,
            quarantined_at: claim.quarantined_at.into(),
            within: seconds(within),
            scans: Scans::new(claim, plan),
            claim_limit: ClaimLimit::new(claim),
        }
    }
}

impl QueryFragment<Pg> for NextDueQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select case when " {self.claim_limit} " then (select extract(epoch from min(job.run_at) - clock_timestamp())
from unnest(" {self.scans.queues} ") as wanted (queue, first, last)
cross join lateral (
    select job.run_at
    from " {self.scans} "
    cross join lateral (
        select r.run_at from jobs.ready r
        where r.queue = wanted.queue and r.priority = level.priority
          and r.run_at >= scan.floor and r.run_at <= now() + make_interval(secs => " [self.within => Double] ")
          and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.quarantined_at => Integer] " and " {FlagsKnown("r")} "
        order by r.run_at, r.id
        limit 1
    ) job
) job
where " NOT_PAUSED ") else 0 end::float8, now(), " PAUSED
        )
    }
}

native_query!(NextDueQuery<'a> -> (Nullable<Double>, Timestamptz, Array<Text>));

#[derive(Queryable)]
pub(crate) struct NextDueRow {
    pub(crate) seconds: Option<f64>,
    pub(crate) clock: DateTime<Utc>,
    pub(crate) paused: Vec<String>,
}
