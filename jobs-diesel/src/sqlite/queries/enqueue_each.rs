//! `enqueue_each`: inserts one job per row of the application's query, with one `insert .. select`.

use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sqlite::Sqlite;
use diesel_jobs_core::NewJob;

use super::enqueue::Row;
use crate::enqueue_each::{Rows, name, names};

/// The rows of the application's query, each with its arguments.
pub(crate) struct ArgsOfRows<Q> {
    /// The names of the query's columns.
    names: String,
    /// The arguments of `json_object`.
    fields: String,
    query: Q,
}

impl<Q> ArgsOfRows<Q> {
    pub(super) fn new(Rows { query, keys }: Rows<Q>) -> Self {
        // Names of arguments are Rust identifiers, so they contain no quote.
        let fields: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(column, (key, value, _))| format!("'{key}', {}", value(&name(column))))
            .collect();
        Self { names: names(keys.len()), fields: fields.join(", "), query }
    }

    /// Adds the rows as a common table expression with the name `source`.
    pub(super) fn push_source<'b>(&'b self, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()>
    where
        Q: QueryFragment<Sqlite>,
    {
        out.push_sql("with source (");
        out.push_sql(&self.names);
        out.push_sql(") as (");
        self.query.walk_ast(out.reborrow())?;
        out.push_sql(")");
        Ok(())
    }

    /// Adds the arguments of a row of `source`.
    pub(super) fn push_args(&self, out: &mut AstPass<'_, '_, Sqlite>) {
        out.push_sql("json_object(");
        out.push_sql(&self.fields);
        out.push_sql(")");
    }
}

pub(crate) struct EnqueueEachQuery<'a, Q> {
    row: Row<'a>,
    rows: ArgsOfRows<Q>,
}

impl<'a, Q> EnqueueEachQuery<'a, Q> {
    pub(crate) fn new(job: &'a NewJob, rows: Rows<Q>) -> Self {
        Self { row: Row::of(job), rows: ArgsOfRows::new(rows) }
    }
}

impl<Q: QueryFragment<Sqlite>> QueryFragment<Sqlite> for EnqueueEachQuery<'_, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.rows.push_source(&mut out)?;
        out.push_sql(" insert into jobs_job (");
        self.row.push_names(&mut out);
        out.push_sql(") select ");
        self.row.push_values(&mut out)?;
        out.push_sql(", ");
        self.rows.push_args(&mut out);
        out.push_sql(" from source");
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
