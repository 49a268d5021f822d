//! `discover`: finds the levels with jobs of any kind in the gaps of a plan. The time that it takes decides whether
//! claims read the gaps, too. It may be long, because it reads the entries of deleted jobs that vacuum has not removed
//! yet.
//!
//! It locks no rows. Only one worker runs it at a time, because many workers would use all processors for it.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::Claim;

use super::claim_limit::RescanLimit;
use super::scan::{PAUSED, Scans};
use crate::pg::levels::Plan;
use crate::pg::native::{native_query, sql};

/// The number of changes of `jobs.ready` that the server has counted. Changes that were rolled back count, too, because
/// a claim that was rolled back makes its jobs available again. Null if the server does not count.
const CHANGES: &str =
    "case when current_setting('track_counts')::boolean and current_setting('server_version_num')::integer >= 150000 then pg_stat_get_tuples_inserted('jobs.ready'::regclass)
    + pg_stat_get_tuples_updated('jobs.ready'::regclass) + pg_stat_get_tuples_deleted('jobs.ready'::regclass) end";

pub(crate) struct DiscoverQuery<'a> {
    scans: Scans<'a>,
    limit: RescanLimit,
}

impl<'a> DiscoverQuery<'a> {
    /// `plan` has only gaps.
    pub(crate) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        Self { scans: Scans::new(claim, plan), limit: RescanLimit { bypass_limit: claim.bypass_limit } }
    }
}

impl QueryFragment<Pg> for DiscoverQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "select found.queue, found.priority, now(), " PAUSED ", " CHANGES "
from (select " {self.limit} " as admitted) turn
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

/// One row per level. If there is no level, one row with null for queue and priority. If another worker runs this
/// statement, no row.
#[derive(Queryable)]
pub(crate) struct DiscoverRow {
    queue: Option<String>,
    priority: Option<i32>,
    pub(crate) clock: DateTime<Utc>,
    pub(crate) paused: Vec<String>,
    /// How many rows of `jobs.ready` were inserted, updated or deleted so far, as far as the server has counted them.
    /// `None` if it does not count.
    pub(crate) changes: Option<i64>,
}

impl DiscoverRow {
    pub(crate) fn level(&mut self) -> Option<(String, i16)> {
        Some((self.queue.take()?, i16::try_from(self.priority?).ok()?))
    }
}
