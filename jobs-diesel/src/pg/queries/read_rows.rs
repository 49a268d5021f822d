//! `enqueue_each` of jobs with a limit or a key: reads the arguments that the application's query makes, a few at a
//! time. The cursor has the snapshot of its beginning, so it never reads what the inserts between two fetches have
//! changed. Locks: none beyond those of the query.

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::Text;

use super::enqueue_each::ArgsOfRows;
use crate::enqueue_each::Rows;
use crate::pg::native::{native_query, sql};

/// Begins to read.
pub(crate) struct ReadRows<Q>(ArgsOfRows<Q>);

impl<Q> ReadRows<Q> {
    pub(crate) fn new(rows: Rows<Q>) -> Self {
        Self(ArgsOfRows::new(rows))
    }
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for ReadRows<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        sql!(out, "declare diesel_jobs_rows no scroll cursor for select " (&self.0.args) "::pg_catalog.text from " {self.0})
    }
}

impl<Q> QueryId for ReadRows<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for ReadRows<Q> {
    type SqlType = ();
}

impl<Q, C> RunQueryDsl<C> for ReadRows<Q> {}

/// Reads the arguments of the next jobs.
pub(crate) struct FetchRows;

impl QueryFragment<Pg> for FetchRows {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        sql!(out, "fetch 500 from diesel_jobs_rows")
    }
}

native_query!(FetchRows -> Text);

/// Ends the reading.
pub(crate) struct CloseRows;

impl QueryFragment<Pg> for CloseRows {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        sql!(out, "close diesel_jobs_rows")
    }
}

native_query!(CloseRows -> ());
