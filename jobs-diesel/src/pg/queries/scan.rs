//! The part that `claim`, `next_due`, `discover` and `set_apart` share: which levels of the wanted queues they read,
//! and from which time on. Also the conditions about paused queues and a frozen database.

use chrono::{DateTime, Utc};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Bool, Double, Integer, Nullable, Text, Timestamptz};
use diesel_jobs_core::storage::Claim;

#[cfg(doc)]
use crate::pg::levels::ALL_QUEUES;
use crate::pg::levels::{Plan, Scan};
use crate::pg::native::{seconds, sql};

/// The condition that the queue is not paused and the database is not frozen. The second part does not depend on the
/// queue. So it is evaluated once per statement, on a table of one page. That takes 0.9 µs of the 31 µs of processor
/// time of a claim that returns no job.
pub(super) const NOT_PAUSED: &str =
    "not exists (select from jobs.queue paused where paused.name = wanted.queue and paused.paused)
          and not exists (select from jobs.installation where frozen_at is not null)";

/// The condition that the database is not frozen.
pub(super) const NOT_FROZEN: &str = "not exists (select from jobs.installation where frozen_at is not null)";

/// The paused queues, as one array. It contains [`ALL_QUEUES`] while the database is frozen.
pub(super) const PAUSED: &str = "array(select name from jobs.queue where paused) || array(select ''::text from jobs.installation where frozen_at is not null)";

/// A plan, column by column. Each queue has the range of its scans. So the work of a statement grows with the number of
/// scans, and not with the product of queues and scans.
pub(super) struct Scans<'a> {
    pub(super) queues: Queues<'a>,
    hi: Vec<i32>,
    lo: Vec<i32>,
    floors: Vec<Option<DateTime<Utc>>>,
    try_all_rows: Vec<bool>,
    lag: f64,
}

impl<'a> Scans<'a> {
    pub(super) fn new(claim: &'a Claim, plan: &Plan) -> Self {
        let place = |at: usize| i32::try_from(at).unwrap_or(i32::MAX);
        Self {
            queues: Queues {
                names: claim.wanted.iter().map(|wanted| wanted.queue.as_ref()).collect(),
                // SQL arrays begin at 1.
                firsts: plan.of_queue.iter().map(|range| place(range.start + 1)).collect(),
                lasts: plan.of_queue.iter().map(|range| place(range.end)).collect(),
            },
            hi: plan.scans.iter().map(|scan| scan.hi).collect(),
            lo: plan.scans.iter().map(|scan| scan.lo).collect(),
            floors: plan.scans.iter().map(Scan::begin).collect(),
            try_all_rows: plan.scans.iter().map(|scan| scan.try_all_rows).collect(),
            lag: seconds(plan.lag),
        }
    }
}

/// The columns of `unnest(..) as wanted (queue, first, last)`.
pub(super) struct Queues<'a> {
    names: Vec<&'a str>,
    firsts: Vec<i32>,
    lasts: Vec<i32>,
}

impl QueryFragment<Pg> for Queues<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            [self.names => Array<Text>] ", " [self.firsts => Array<Integer>] ", " [self.lasts => Array<Integer>]
        )
    }
}

impl QueryFragment<Pg> for Scans<'_> {
    /// Writes the `from` items after `wanted`: `scan` with its floor, and `level` with its priority, best first. A scan
    /// of one priority is one level. A scan of a gap finds the levels in it, and reads one index entry for each.
    ///
    /// The planner estimates a series at a thousand rows, an array at ten, and an equality at one row in two hundred.
    /// The equality here (`sign(place) = 1`) is true for every place and only lowers the estimate. With a higher
    /// estimate, a server behind a pooler would compile the statement, because our settings do not arrive there. That
    /// takes 300 ms each time.
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "(select place from unnest(array(select generate_series(wanted.first, wanted.last))) as place where sign(place) = 1) as place
            cross join lateral (
                select (" [self.hi => Array<Integer>] ")[place] as hi, (" [self.lo => Array<Integer>] ")[place] as lo,
                       coalesce((" [self.floors => Array<Nullable<Timestamptz>>] ")[place], now() - make_interval(secs => " [self.lag => Double] ")) as floor,
                       (" [self.try_all_rows => Array<Bool>] ")[place] as try_all_rows
            ) scan
            cross join lateral (
                with recursive level (priority) as (
                    select case when scan.hi = scan.lo then scan.hi else
                        (select r.priority from jobs.ready r
                         where r.queue = wanted.queue and r.priority < scan.hi and r.priority > scan.lo
                         order by r.priority desc limit 1) end
                    union all
                    select (select r.priority from jobs.ready r
                            where r.queue = wanted.queue and r.priority < level.priority and r.priority > scan.lo
                            order by r.priority desc limit 1)
                    from level where level.priority is not null and scan.hi <> scan.lo
                )
                select priority from level where priority is not null
            ) level"
        )
    }
}
