//! `by_id`: what a query finds for each of these jobs, looked up one by one. With `id = any(..)` a server (from 17 on) whose
//! statistics call the queue empty prefers to read all of `ready_claim`: it takes one walk through few rows for cheaper than many
//! looks.

use diesel::dsl::sql as sql_literal;
use diesel::expression::SqlLiteral;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AsQuery, AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt};

use crate::pg::native::sql;

pub(crate) struct ById<'a, Q> {
    ids: &'a [i64],
    one: Q,
}

/// The job that a query of [`by_id`] is to find.
pub(crate) fn wanted() -> SqlLiteral<BigInt> {
    sql_literal("wanted.id")
}

/// `one` finds the job [`wanted`].
pub(crate) fn by_id<Q: AsQuery>(ids: &[i64], one: Q) -> ById<'_, Q::Query> {
    ById { ids, one: one.as_query() }
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for ById<'_, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // Without the offset the two would be one join, and the condition `id = any(..)` again.
        sql!(
            out,
            "select found.* from unnest(" [self.ids => Array<BigInt>] ") as wanted(id) cross join lateral ("
            {self.one} " offset 0) found"
        )
    }
}

impl<Q: QueryId> QueryId for ById<'_, Q> {
    type QueryId = ById<'static, Q::QueryId>;
    const HAS_STATIC_QUERY_ID: bool = Q::HAS_STATIC_QUERY_ID;
}

impl<Q: Query> Query for ById<'_, Q> {
    type SqlType = Q::SqlType;
}

impl<Q, C> RunQueryDsl<C> for ById<'_, Q> {}
