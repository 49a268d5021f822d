//! The query for the row of a key.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::dsl::{AsSelect, Find, Select};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::query_dsl::methods::{FindDsl, SelectDsl};
use diesel::{Expression, RunQueryDsl, Selectable, SelectableHelper as _};

use super::{Key, Row};

/// Selects the row of `T` with a key.
pub(super) type RowQuery<T, DB> =
    Lockable<Select<Find<<T as diesel::associations::HasTable>::Table, <T as Row>::PrimaryKey>, AsSelect<T, DB>>>;

/// A query that locks its rows, if it is asked to. Diesel has `for_no_key_update` for a query of a known table. The trait behind it
/// takes a type that is private, so generic code cannot use it.
#[derive(Debug)]
pub struct Lockable<Q> {
    query: Q,
    lock: bool,
}

pub(super) fn row<T, DB>(key: &Key<T>, lock: bool) -> QueryResult<RowQuery<T, DB>>
where
    DB: Backend,
    T: Row + Selectable<DB>,
    T::Table: FindDsl<T::PrimaryKey>,
    AsSelect<T, DB>: Expression,
    Find<T::Table, T::PrimaryKey>: SelectDsl<AsSelect<T, DB>>,
{
    let key = key.value().map_err(|error| diesel::result::Error::DeserializationError(Box::new(error)))?;
    Ok(Lockable { query: SelectDsl::select(FindDsl::find(T::table(), key), T::as_select()), lock })
}

impl<Q: Query> Query for Lockable<Q> {
    type SqlType = Q::SqlType;
}

impl<Q> QueryId for Lockable<Q> {
    type QueryId = ();
    // The text depends on `lock`.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q, C> RunQueryDsl<C> for Lockable<Q> {}

#[cfg(feature = "postgres")]
impl<Q: QueryFragment<diesel::pg::Pg>> QueryFragment<diesel::pg::Pg> for Lockable<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, diesel::pg::Pg>) -> QueryResult<()> {
        self.query.walk_ast(out.reborrow())?;
        if self.lock {
            out.push_sql(" FOR NO KEY UPDATE");
        }
        Ok(())
    }
}

/// SQLite locks no rows: a transaction that writes is alone.
#[cfg(feature = "sqlite")]
impl<Q: QueryFragment<diesel::sqlite::Sqlite>> QueryFragment<diesel::sqlite::Sqlite> for Lockable<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, diesel::sqlite::Sqlite>) -> QueryResult<()> {
        self.query.walk_ast(out)
    }
}
