//! The part of a statement that says where to look: lanes of the wanted queues, each from its floor. Shared by `claim`
//! and `next_due`.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Integer, Nullable, Text, Timestamptz};

use crate::pg::lanes::Scan;
use crate::pg::native::sql;

/// Queues an operator has paused give nothing.
pub(super) const NOT_PAUSED: &str =
    "not exists (select from jobs.queue paused where paused.name = wanted.queue and paused.paused)";

/// Scans column by column.
pub(super) struct Lanes<'a> {
    queues: Vec<&'a str>,
    hi: Vec<i32>,
    lo: Vec<i32>,
    floors: Vec<Option<DateTime<Utc>>>,
}

impl<'a> Lanes<'a> {
    pub(super) fn new(scans: &'a [Scan]) -> Self {
        Self {
            queues: scans.iter().map(|scan| scan.queue.as_str()).collect(),
            hi: scans.iter().map(|scan| scan.hi).collect(),
            lo: scans.iter().map(|scan| scan.lo).collect(),
            floors: scans.iter().map(|scan| scan.floor).collect(),
        }
    }
}

impl QueryFragment<Pg> for Lanes<'_> {
    /// Writes a `from` item: `scan` with its floor, and `lane` with its priority, best first. A scan of one priority is
    /// one lane; a scan between two finds those that occur, one index entry each.
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "unnest(" [self.queues => Array<Text>] ", " [self.hi => Array<Integer>] ", " [self.lo => Array<Integer>] ", "
            [self.floors => Array<Nullable<Timestamptz>>] ") as scan (queue, hi, lo, floor)
            cross join lateral (
                with recursive lane (priority) as (
                    select case when scan.hi = scan.lo then scan.hi else
                        (select r.priority from jobs.ready r
                         where r.queue = scan.queue and r.priority < scan.hi and r.priority > scan.lo
                         order by r.priority desc limit 1) end
                    union all
                    select (select r.priority from jobs.ready r
                            where r.queue = scan.queue and r.priority < lane.priority and r.priority > scan.lo
                            order by r.priority desc limit 1)
                    from lane where lane.priority is not null and scan.hi <> scan.lo
                )
                select priority from lane where priority is not null
            ) lane"
        )
    }
}
