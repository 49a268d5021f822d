//! `queue_depths`: how many jobs wait in each queue, and how long the oldest due one has waited. It only reads
//! `ready_claim` and locks no rows.
//!
//! It finds the levels (the priorities of each queue) by one or two probes per level, and the oldest job of a level is its
//! first entry. The jobs of a level, and of a queue, are counted up to a limit. The limit falls with the number of queues
//! and of levels, so that a bounded number of entries is read. It counts level by level and then adds: to search the
//! levels of each queue among all levels would take the square of their number.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{BigInt, Double, Nullable, Text};
use diesel_jobs_core::{COUNTED_DEPTH, QueueCount};

use crate::pg::native::{native_query, sql};

pub(crate) struct QueueDepthsQuery {
    most: i64,
    of_all: i64,
    least: i64,
}

impl QueueDepthsQuery {
    pub(crate) fn new() -> Self {
        Self { most: COUNTED_DEPTH, of_all: 10 * COUNTED_DEPTH, least: 100 }
    }
}

/// The queue, due jobs, later jobs, the limit, and how long the oldest due job has waited.
pub(crate) type DepthRow = (String, i64, i64, i64, Option<f64>);

/// Reads a row.
pub(crate) fn read((queue, available, later, limit, oldest_wait_seconds): DepthRow) -> QueueCount {
    QueueCount { queue, available, later, limit, oldest_wait_seconds }
}

impl QueryFragment<Pg> for QueueDepthsQuery {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "with recursive level (queue, priority, run_at) as (
    (select r.queue, r.priority, r.run_at::timestamptz from jobs.ready r order by r.queue, r.priority desc, r.run_at limit 1)
    union all
    select n.queue, n.priority, n.run_at from level l, lateral (
        select * from (
            (select r.queue, r.priority, r.run_at::timestamptz from jobs.ready r where r.queue = l.queue and r.priority < l.priority
             order by r.queue, r.priority desc, r.run_at limit 1)
            union all
            (select r.queue, r.priority, r.run_at::timestamptz from jobs.ready r where r.queue > l.queue
             order by r.queue, r.priority desc, r.run_at limit 1)
        ) two limit 1
    ) n
), cap as (
    select greatest(" [self.least => BigInt] ", least(" [self.most => BigInt] ", " [self.of_all => BigInt] " / greatest(count(distinct queue), 1),
                    5 * " [self.of_all => BigInt] " / greatest(count(*), 1))) as n from level
)
select l.queue, least(sum(due.jobs), cap.n)::bigint, least(sum(later.jobs), cap.n)::bigint, cap.n,
       extract(epoch from now() - min(l.run_at) filter (where l.run_at <= now()))::float8
from level l, cap, lateral (
    select count(*) as jobs from (
        select from jobs.ready r where r.queue = l.queue and r.priority = l.priority and r.run_at <= now() limit cap.n
    ) counted
) due, lateral (
    select count(*) as jobs from (
        select from jobs.ready r where r.queue = l.queue and r.priority = l.priority and r.run_at > now() limit cap.n
    ) counted
) later
group by l.queue, cap.n
order by l.queue"
        )
    }
}

native_query!(QueueDepthsQuery -> (Text, BigInt, BigInt, BigInt, Nullable<Double>));
