//! `finish` for batches that need a part of it, or that pass over locked rows. A batch of plain jobs reads no table
//! that it does not need.

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::sql_types::{Array, BigInt};

use super::finish::{Adds, FOR_UPDATE, FinishQuery};
use crate::pg::native::native_query;

/// `finish` of the rows that no other session has locked, for batches without failures.
pub(crate) struct FinishUnlockedQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for FinishUnlockedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk(FOR_UPDATE, Adds::Nothing, out)
    }
}

/// The same for batches with failures, or with reasons of cancelled jobs.
pub(crate) struct RecordUnlockedQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for RecordUnlockedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk(FOR_UPDATE, Adds::Failures, out)
    }
}

/// The same for batches that discard jobs. Other batches do not read the rules for discarded jobs.
pub(crate) struct DiscardUnlockedQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for DiscardUnlockedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk(FOR_UPDATE, Adds::FailuresAndRules, out)
    }
}

/// The same for batches with limits or unique keys. Other batches do not touch their tables.
pub(crate) struct LimitedUnlockedQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for LimitedUnlockedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk(FOR_UPDATE, Adds::Everything, out)
    }
}

/// `finish` in the transaction of a handler, of jobs of which some have a limit or a unique key.
pub(crate) struct LimitedQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for LimitedQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk("", Adds::FailuresAndPermits, out)
    }
}

/// The same if some jobs are discarded.
pub(crate) struct EverythingQuery<'a>(pub(crate) FinishQuery<'a>);

impl QueryFragment<Pg> for EverythingQuery<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk("", Adds::Everything, out)
    }
}

native_query!(FinishUnlockedQuery<'a> -> Array<BigInt>);
native_query!(RecordUnlockedQuery<'a> -> Array<BigInt>);
native_query!(DiscardUnlockedQuery<'a> -> Array<BigInt>);
native_query!(LimitedUnlockedQuery<'a> -> Array<BigInt>);
native_query!(LimitedQuery<'a> -> Array<BigInt>);
native_query!(EverythingQuery<'a> -> Array<BigInt>);
