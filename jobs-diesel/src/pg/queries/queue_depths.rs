//! `queue_depths`: how many jobs wait in each queue, and how long the oldest due one has waited. It only reads
//! `ready_claim` and locks no rows.
//!
//! It finds the levels (the priorities of each queue) by one or two probes per level, and the oldest job of a level is its
//! first entry. The jobs of a queue are counted up to a limit. The limit falls with the number of queues, so that no more
//! than about a hundred thousand entries of due jobs are read, and as many of later ones.

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
), queue as (
    select queue, extract(epoch from now() - min(run_at) filter (where run_at <= now()))::float8 as oldest from level group by queue
), cap as (
    select greatest(" [self.least => BigInt] ", least(" [self.most => BigInt] ", " [self.of_all => BigInt] " / greatest(count(*), 1))) as n from queue
)
select q.queue, due.jobs, later.jobs, cap.n, q.oldest
from queue q, cap, lateral (
    select count(*) as jobs from (
        select from level l, lateral (
            select from jobs.ready r where r.queue = l.queue and r.priority = l.priority and r.run_at <= now() limit cap.n
        ) one where l.queue = q.queue limit cap.n
    ) counted
) due, lateral (
    select count(*) as jobs from (
        select from level l, lateral (
            select from jobs.ready r where r.queue = l.queue and r.priority = l.priority and r.run_at > now() limit cap.n
        ) one where l.queue = q.queue limit cap.n
    ) counted
) later
order by q.queue"
        )
    }
}

native_query!(QueueDepthsQuery -> (Text, BigInt, BigInt, BigInt, Nullable<Double>));
