//! `discover`: the levels that have jobs in the gaps of a plan, of whatever kind. How long it takes tells whether claims may look
//! there, too: it walks over the entries of jobs that are gone and that no vacuum could remove yet.
//!
//! It locks nothing. One worker at a time runs it: together they would walk on all processors.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::Claim;

use super::claim_limit::Alone;
use super::scan::{PAUSED, Scans};
use crate::pg::levels::Plan;
use crate::pg::native::{native_query, sql};

/// Rolled back changes are counted, too: what a claim had taken came back.
const CHANGES: &str =
    "case when current_setting('track_counts')::boolean then pg_stat_get_tuples_inserted('jobs.ready'::regclass)
    + pg_stat_get_tuples_updated('jobs.ready'::regclass) + pg_stat_get_tuples_deleted('jobs.ready'::regclass) end";

pub(crate) struct DiscoverQuery<'a> {
    scans: Scans<'a>,
    alone: Alone,
}

impl<'a> DiscoverQuery<'a> {
    /// `plan`: its gaps.
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        Self { scans: Scans::new(claim, plan), alone: Alone { bypass_limit: claim.bypass_limit } }
    }
}

impl QueryFragment<Pg> for DiscoverQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select found.queue, found.priority, now(), " PAUSED ", " CHANGES "
from (select " {self.alone} " as admitted) turn
left join lateral (
    select wanted.queue, level.priority
    from unnest(" {self.scans.queues} ") as wanted (queue, first, last)
    cross join lateral (select level.priority from " {self.scans} ") level
    where turn.admitted
) found on true
where turn.admitted"
        )
    }
}

native_query!(DiscoverQuery<'a> -> (Nullable<Text>, Nullable<Integer>, Timestamptz, Array<Text>, Nullable<BigInt>));

/// One per level; one of nulls where there is none, and none where another worker is at it.
#[derive(Queryable)]
pub(crate) struct DiscoverRow {
    queue: Option<String>,
    priority: Option<i32>,
    pub(crate) clock: DateTime<Utc>,
    pub(crate) paused: Vec<String>,
    /// So many rows of `jobs.ready` were written or deleted so far, as far as the server has counted, if it counts.
    pub(crate) changes: Option<i64>,
}

impl DiscoverRow {
    pub(crate) fn level(&mut self) -> Option<(String, i16)> {
        Some((self.queue.take()?, i16::try_from(self.priority?).ok()?))
    }
}
