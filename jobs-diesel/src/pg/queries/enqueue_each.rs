//! `enqueue_each`: inserts one job per row of the application's query, with one `insert .. select`. The notification is a condition
//! that does not depend on the rows, so the server computes it once. Locks: none beyond those of an insert.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Text;
use diesel_jobs_core::NewJob;

use super::enqueue::{COLUMNS, TraceColumn, TraceValue, Values};
use super::wake::SOMEBODY_SLEEPS;
use crate::enqueue_each::{Rows, name, names};
use crate::pg::native::sql;

pub(crate) struct EnqueueEachQuery<'a, Q> {
    queue: &'a str,
    values: Values<'a>,
    /// The names of the query's columns.
    names: String,
    /// The arguments of `json_build_object`.
    fields: String,
    query: Q,
    trace: TraceColumn,
    traceparent: TraceValue<'a>,
}

impl<'a, Q> EnqueueEachQuery<'a, Q> {
    pub(crate) fn new(job: &'a NewJob, Rows { query, keys }: Rows<Q>) -> Self {
        // Names of arguments are Rust identifiers, so they contain no quote.
        let field = |(column, (key, _)): (usize, &(&str, _))| format!("'{key}', {}", name(column));
        let fields: Vec<String> = keys.iter().enumerate().map(field).collect();
        Self {
            queue: &job.queue,
            values: Values::new(job),
            names: names(keys.len()),
            fields: fields.join(", "),
            query,
            trace: TraceColumn::of(std::slice::from_ref(job)),
            traceparent: TraceValue::of(job),
        }
    }
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for EnqueueEachQuery<'_, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        sql!(
            out,
            "insert into jobs.ready (" COLUMNS {self.trace} ")
select " {self.values} ", json_build_object(" (&self.fields) ")" {self.traceparent} "
from (" {self.query} ") as source (" (&self.names) ")
where (select count(pg_notify('jobs', queue)) from (select " [self.queue => Text] "::text as queue) woken where " SOMEBODY_SLEEPS ") is not null"
        )
    }
}

// The statement contains the application's query, so its text is the key of the cache.
impl<Q> QueryId for EnqueueEachQuery<'_, Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for EnqueueEachQuery<'_, Q> {
    type SqlType = ();
}

impl<Q, C> RunQueryDsl<C> for EnqueueEachQuery<'_, Q> {}
