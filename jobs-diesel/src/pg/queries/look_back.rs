//! `look_back`: the first waiting job below each of a worker's floors, where its claims do not look.
//!
//! It walks over the entries of all jobs that are gone and that no vacuum could remove yet, and may take a while; so it runs
//! beside the claims. One worker at a time does: together they would walk on all processors. Whoever finds another at it
//! comes back later.
//!
//! A row that a claim is about to take may be among what it finds: then the next claim starts a little too far below.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, SmallInt, Text, Timestamptz};
use jobs_core::storage::Claim;

use super::scan::NOT_PAUSED;
use crate::pg::lanes::{PassedBy, Scan};
use crate::pg::native::{native_query, sql};

pub(crate) struct LookBackQuery<'a> {
    queues: Vec<&'a str>,
    priorities: Vec<i32>,
    floors: Vec<Option<DateTime<Utc>>>,
    kinds: &'a [String],
    suspect_at: i32,
}

impl<'a> LookBackQuery<'a> {
    /// Of these scans each is one lane with its floor.
    pub(crate) fn new(claim: &'a Claim, floors: &'a [Scan]) -> Self {
        Self {
            queues: floors.iter().map(|scan| scan.queue.as_str()).collect(),
            priorities: floors.iter().map(|scan| scan.hi).collect(),
            floors: floors.iter().map(|scan| scan.floor).collect(),
            kinds: &claim.kinds,
            suspect_at: claim.suspect_at.into(),
        }
    }
}

impl QueryFragment<Pg> for LookBackQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // The first number of the lock is `jobs` in ASCII; the places of the gate are 1 to 4.
        sql!(
            out,
            "select job.queue, job.priority, job.run_at, job.id
from (select pg_try_advisory_xact_lock(1785684595, 5) as had) lock
left join lateral (
    select wanted.queue, low.priority, low.run_at, low.id
    from unnest(" [self.queues => Array<Text>] ", " [self.priorities => Array<Integer>] ", " [self.floors => Array<Nullable<Timestamptz>>] ")
        as wanted (queue, priority, floor)
    cross join lateral (
        select r.priority, r.run_at, r.id from jobs.ready r
        where r.queue = wanted.queue and r.priority = wanted.priority and r.run_at < wanted.floor
          and r.kind = any(" [self.kinds => Array<Text>] ") and r.crashes < " [self.suspect_at => Integer] "
        order by r.run_at, r.id
        limit 1
    ) low
    where lock.had and " NOT_PAUSED "
) job on true
where lock.had"
        )
    }
}

type Row = (Nullable<Text>, Nullable<SmallInt>, Nullable<Timestamptz>, Nullable<BigInt>);

native_query!(LookBackQuery<'a> -> Row);

/// One per lane that has such a job; one of nulls where none has, and none where another worker looks.
#[derive(Queryable)]
pub(crate) struct LookBackRow {
    queue: Option<String>,
    priority: Option<i16>,
    run_at: Option<DateTime<Utc>>,
    id: Option<i64>,
}

impl LookBackRow {
    pub(crate) fn found(self) -> Option<PassedBy> {
        Some(PassedBy { queue: self.queue?, priority: self.priority?, run_at: self.run_at?, id: self.id? })
    }
}
