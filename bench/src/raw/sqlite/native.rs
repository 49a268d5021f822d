//! A hand-written statement with text binds. It is prepared once per connection.

use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;

/// The pieces of the statement. A bind goes between two of them. Its rows are integers.
pub(super) struct Native<'a> {
    pub(super) pieces: &'a [&'a str],
    pub(super) binds: &'a [&'a str],
}

impl QueryFragment<Sqlite> for Native<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        for (at, piece) in self.pieces.iter().enumerate() {
            out.push_sql(piece);
            if let Some(bind) = self.binds.get(at) {
                out.push_bind_param::<Text, _>(*bind)?;
            }
        }
        Ok(())
    }
}

impl QueryId for Native<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Native<'_> {
    type SqlType = BigInt;
}

impl<C> RunQueryDsl<C> for Native<'_> {}
