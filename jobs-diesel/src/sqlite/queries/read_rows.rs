//! `enqueue_each` of jobs with a limit or a key: puts the arguments that the application's query makes into a temporary
//! table, and reads them from there, a few at a time. The table belongs to the connection, and a rollback empties it.

use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;

use super::enqueue_each::ArgsOfRows;
use crate::enqueue_each::Rows;

/// The number of a row, and its arguments.
pub(crate) type NumberedArgs = (i64, String);

pub(crate) const CREATE: &str =
    "create temporary table if not exists diesel_jobs_rows (number integer primary key, args text not null);
delete from temp.diesel_jobs_rows";

pub(crate) const EMPTY: &str = "delete from temp.diesel_jobs_rows";

/// Fills the table.
pub(crate) struct KeepRows<Q>(ArgsOfRows<Q>);

impl<Q> KeepRows<Q> {
    pub(crate) fn new(rows: Rows<Q>) -> Self {
        Self(ArgsOfRows::new(rows))
    }
}

impl<Q: QueryFragment<Sqlite>> QueryFragment<Sqlite> for KeepRows<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        self.0.push_source(&mut out)?;
        out.push_sql(" insert into temp.diesel_jobs_rows (args) select ");
        self.0.push_args(&mut out);
        out.push_sql(" from source");
        Ok(())
    }
}

impl<Q> QueryId for KeepRows<Q> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for KeepRows<Q> {
    type SqlType = ();
}

impl<Q, C> RunQueryDsl<C> for KeepRows<Q> {}

/// Reads the next rows after the one with this number.
pub(crate) struct NextRows(pub(crate) i64);

impl QueryFragment<Sqlite> for NextRows {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("select number, args from temp.diesel_jobs_rows where number > ");
        out.push_bind_param::<BigInt, _>(&self.0)?;
        out.push_sql(" order by number limit 500");
        Ok(())
    }
}

impl QueryId for NextRows {
    type QueryId = Self;
}

impl Query for NextRows {
    type SqlType = (BigInt, Text);
}

impl<C> RunQueryDsl<C> for NextRows {}
