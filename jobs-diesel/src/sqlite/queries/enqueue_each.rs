//! `enqueue_each`: inserts one job per row of the application's query, with one `insert .. select`.

use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::NewJob;

use super::enqueue::Row;
use crate::enqueue_each::{Rows, name, names};

pub(crate) struct EnqueueEachQuery<'a, Q> {
    row: Row<'a>,
    /// The names of the query's columns.
    names: String,
    /// The arguments of `json_object`.
    fields: String,
    query: Q,
}

impl<'a, Q> EnqueueEachQuery<'a, Q> {
    pub(crate) fn new(job: &'a NewJob, Rows { query, keys }: Rows<Q>) -> Self {
        // Names of arguments are Rust identifiers, so they contain no quote.
        let fields: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(column, (key, value))| format!("'{key}', {}", value(&name(column))))
            .collect();
        Self { row: Row::of(job), names: names(keys.len()), fields: fields.join(", "), query }
    }
}

impl<Q: QueryFragment<Sqlite>> QueryFragment<Sqlite> for EnqueueEachQuery<'_, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("with source (");
        out.push_sql(&self.names);
        out.push_sql(") as (");
        self.query.walk_ast(out.reborrow())?;
        out.push_sql(") insert into jobs_job (");
        self.row.push_names(&mut out);
        out.push_sql(") select ");
        self.row.push_values(&mut out)?;
        out.push_sql(", json_object(");
        out.push_sql(&self.fields);
        out.push_sql(") from source");
        Ok(())
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
