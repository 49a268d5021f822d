//! `enqueue_many`: many jobs with one `insert .. select unnest(..)` per thousand. It also sends the notifications.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt, Nullable, Text};
use diesel_jobs_core::NewJob;

use super::enqueue::{ARRAYS, Arrays, COLUMNS, COLUMNS_OF_ARRAYS, TraceColumn, traceparent};
use super::wake::A_WORKER_IS_IDLE;
use crate::pg::native::{cached_by_text, sql};

/// The values of [`TraceColumn`] as one more array. It is empty if there is no such column.
#[derive(Default)]
struct TraceValues<'a>(Vec<Option<&'a str>>);

impl QueryFragment<Pg> for TraceValues<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        sql!(out, ", " [self.0 => Array<Nullable<Text>>])
    }
}

pub(crate) struct EnqueueManyQuery<'a> {
    arrays: Arrays<'a>,
    /// Each queue once.
    distinct_queues: Vec<&'a str>,
    trace: TraceColumn,
    traceparents: TraceValues<'a>,
}

impl<'a> EnqueueManyQuery<'a> {
    pub(crate) fn new(jobs: &'a [NewJob]) -> Self {
        let mut query = Self {
            arrays: Arrays::new(jobs),
            distinct_queues: Vec::new(),
            trace: TraceColumn::of(jobs),
            traceparents: TraceValues::default(),
        };
        for job in jobs {
            if query.distinct_queues.last() != Some(&&*job.queue) {
                query.distinct_queues.push(&job.queue);
            }
            query.traceparents.0.extend(query.trace.0.then(|| traceparent(job)));
        }
        query.distinct_queues.sort_unstable();
        query.distinct_queues.dedup();
        query
    }
}

// The notifications are a part of `returning` that is computed once for all rows. The rows are sent to the client as
// they are inserted. A common table expression would store them first, and a bulk would take a tenth more of the
// server's time.
impl QueryFragment<Pg> for EnqueueManyQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.ready (" COLUMNS {self.trace} ")
select " COLUMNS_OF_ARRAYS {self.trace} "
from unnest(" {self.arrays} {self.traceparents} ")
    with ordinality as job (" ARRAYS {self.trace} ", place)
order by place
returning id operator(pg_catalog.+) (select pg_catalog.count(jobs.notify_workers(queue)) operator(pg_catalog.*) 0 from pg_catalog.unnest(" [self.distinct_queues => Array<Text>] ") as woken (queue) where " A_WORKER_IS_IDLE ")"
        )
    }
}

// There are two texts of the statement, so its text is the key of the cache.
cached_by_text!(EnqueueManyQuery<'a> -> BigInt);
