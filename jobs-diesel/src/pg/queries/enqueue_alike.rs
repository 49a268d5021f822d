//! `enqueue` for many jobs that differ only in their arguments, as in most bulks. The common values are sent once. A
//! row takes less of the server's time than with the statement for mixed jobs.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, Json, Text};
use diesel_jobs_core::NewJob;

use super::enqueue::{COLUMNS, TraceColumn, TraceValue, Values, args};
use super::wake::A_WORKER_IS_IDLE;
use crate::pg::native::{RawJson, cached_by_text, sql};

pub(crate) struct EnqueueAlikeQuery<'a> {
    queue: &'a str,
    values: Values<'a>,
    args: Vec<RawJson>,
    trace: TraceColumn,
    traceparent: TraceValue<'a>,
}

impl<'a> EnqueueAlikeQuery<'a> {
    /// Returns `None` if the jobs differ in anything else.
    pub(crate) fn new(jobs: &'a [NewJob]) -> Option<Self> {
        let (first, others) = jobs.split_first()?;
        let alike = others.iter().all(|job| job.is_like(first));
        alike.then(|| Self {
            queue: &first.queue,
            values: Values::new(first),
            args: jobs.iter().map(args).collect(),
            trace: TraceColumn::of(jobs),
            traceparent: TraceValue::of(first),
        })
    }
}

// `unnest` returns the rows in the order of the array. A plan that reads from one function cannot change this order.
impl QueryFragment<Pg> for EnqueueAlikeQuery<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.ready (" COLUMNS {self.trace} ")
select " {self.values} ", args" {self.traceparent} "
from pg_catalog.unnest(" [self.args => Array<Json>] ") as job (args)
returning id operator(pg_catalog.+) (select pg_catalog.count(jobs.notify_workers(queue)) operator(pg_catalog.*) 0 from (select " [self.queue => Text] "::pg_catalog.text as queue) woken where " A_WORKER_IS_IDLE ")"
        )
    }
}

// There are two texts of the statement, so its text is the key of the cache.
cached_by_text!(EnqueueAlikeQuery<'a> -> diesel::sql_types::BigInt);
