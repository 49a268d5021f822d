//! `by_id`: the result of a query for each of these jobs, which are looked up one by one. With `id = any(..)`, a server
//! from version 17 on reads all of the index `ready_claim` if its statistics show the queue as empty. It estimates that
//! one pass over few rows is cheaper than many lookups.

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

/// The id of the job that a query for [`by_id`] must find.
pub(crate) fn wanted() -> SqlLiteral<BigInt> {
    sql_literal("wanted.id")
}

/// Runs `one`, which finds the job [`wanted`], for each of these ids.
pub(crate) fn by_id<Q: AsQuery>(ids: &[i64], one: Q) -> ById<'_, Q::Query> {
    ById { ids, one: one.as_query() }
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for ById<'_, Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // Without `offset 0` the planner would make one join of both, and this is the condition `id = any(..)` again.
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
