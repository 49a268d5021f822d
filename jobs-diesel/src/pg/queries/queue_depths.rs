//! `queue_depths`: how many jobs wait in each queue, and how long the oldest due one has waited. It only reads
//! `ready_claim` and locks no rows.
//!
//! It finds the levels (the priorities of each queue) by one or two probes per level, and the oldest job of a level is
//! its first entry. The jobs of a level, and of a queue, are counted up to a limit. The limit falls with the number of
//! queues and of levels, so that a bounded number of entries is read. It counts level by level and then adds: to search
//! the levels of each queue among all levels would take the square of their number.
//!
//! A queue that was long at the last count of all jobs is counted only up to a hundred. Then the number of that count
//! is shown. With a million waiting jobs in 12 queues this takes 2 ms instead of 60.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Double, Nullable, Text};
use diesel_jobs_core::{COUNTED_DEPTH, CountedTo, JobId, LongQueues, QueueCount};

use crate::pg::native::{native_query, sql};

pub(crate) struct QueueDepthsQuery {
    most: i64,
    of_all: i64,
    least: i64,
    long: LongQueues,
}

impl QueueDepthsQuery {
    pub(crate) fn new(long: LongQueues) -> Self {
        // Due and later jobs are counted separately, so the sum is twice as large.
        Self { most: COUNTED_DEPTH, of_all: 5 * COUNTED_DEPTH, least: 100, long }
    }
}

/// The queue, due jobs and their limit, later jobs and their limit, how long the oldest due job has waited, and its id.
pub(crate) type DepthRow = (String, (i64, i64), (i64, i64), Option<f64>, Option<i64>);

/// Reads a row.
pub(crate) fn read((queue, available, later, oldest_wait_seconds, oldest): DepthRow) -> QueueCount {
    let to = |(jobs, limit)| CountedTo { jobs, limit };
    QueueCount { queue, available: to(available), later: to(later), oldest_wait_seconds, oldest: oldest.map(JobId) }
}

impl QueryFragment<Pg> for QueueDepthsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with recursive level (queue, priority, run_at, id) as (
    (select r.queue, r.priority, r.run_at::timestamptz, r.id from jobs.ready r order by r.queue, r.priority desc, r.run_at, r.id limit 1)
    union all
    select n.queue, n.priority, n.run_at, n.id from level l, lateral (
        select * from (
            (select r.queue, r.priority, r.run_at::timestamptz, r.id from jobs.ready r where r.queue = l.queue and r.priority < l.priority
             order by r.queue, r.priority desc, r.run_at, r.id limit 1)
            union all
            (select r.queue, r.priority, r.run_at::timestamptz, r.id from jobs.ready r where r.queue > l.queue
             order by r.queue, r.priority desc, r.run_at, r.id limit 1)
        ) two limit 1
    ) n
), cap as (
    select greatest(" [self.least => BigInt] ", least(" [self.most => BigInt] ", " [self.of_all => BigInt] " / greatest(count(distinct queue), 1),
                    5 * " [self.of_all => BigInt] " / greatest(count(*), 1))) as n from level
), capped as (
    select queue, priority, run_at, id,
           case when queue = any(" [self.long.available => Array<Text>] ") then least(n, " [self.least => BigInt] ") else n end as most_due,
           case when queue = any(" [self.long.later => Array<Text>] ") then least(n, " [self.least => BigInt] ") else n end as most_later
    from level, cap
)
select l.queue, least(sum(due.jobs), most_due)::bigint, most_due, least(sum(later.jobs), most_later)::bigint, most_later,
       extract(epoch from now() - min(l.run_at) filter (where l.run_at <= now()))::float8,
       (array_agg(l.id order by l.run_at, l.id) filter (where l.run_at <= now()))[1]
from capped l, lateral (
    select count(*) as jobs from (
        select from jobs.ready r where r.queue = l.queue and r.priority = l.priority and r.run_at <= now() limit most_due
    ) counted
) due, lateral (
    select count(*) as jobs from (
        select from jobs.ready r where r.queue = l.queue and r.priority = l.priority and r.run_at > now() limit most_later
    ) counted
) later
group by l.queue, most_due, most_later
order by l.queue"
        )
    }
}

native_query!(QueueDepthsQuery -> (Text, (BigInt, BigInt), (BigInt, BigInt), Nullable<Double>, Nullable<BigInt>));
