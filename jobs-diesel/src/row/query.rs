//! The query for the row of a key.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::dsl::{AsSelect, Find, Limit, Select};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::query_dsl::methods::{FindDsl, LimitDsl, SelectDsl};
use diesel::{Expression, RunQueryDsl, Selectable, SelectableHelper as _};

use super::{Key, Row};

/// Selects the row of `T` with a key.
pub(super) type RowQuery<T, DB> =
    Lockable<Select<Find<<T as diesel::associations::HasTable>::Table, <T as Row>::PrimaryKey>, AsSelect<T, DB>>>;

/// Selects a row of `T` that the query `Q` returns.
pub(super) type FreeRowQuery<T, Q, DB> = Lockable<Select<Limit<Q>, AsSelect<T, DB>>>;

/// How a query locks its rows. SQLite ignores it, because it has no row locks: a handler's transaction is the only one
/// that can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowLock {
    /// The row is not locked.
    None,
    /// `FOR NO KEY UPDATE`: the query waits for another transaction that has locked the row.
    Wait,
    /// `FOR NO KEY UPDATE SKIP LOCKED`: the query skips rows that another transaction has locked.
    Skip,
    /// `FOR NO KEY UPDATE NOWAIT`: if another transaction has locked the row, the query fails with SQLSTATE 55P03.
    NoWait,
}

/// A query that locks its rows, if it is asked to. Diesel has `for_no_key_update` for a query of a known table. The
/// trait behind it takes a type that is private, so generic code cannot use it.
#[derive(Debug)]
pub(super) struct Lockable<Q> {
    query: Q,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite locks no rows"))]
    lock: RowLock,
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
    let lock = if lock { RowLock::Wait } else { RowLock::None };
    Ok(Lockable { query: SelectDsl::select(FindDsl::find(T::table(), key), T::as_select()), lock })
}

pub(super) fn free_row<T, Q, DB>(free: Q, lock: RowLock) -> FreeRowQuery<T, Q, DB>
where
    DB: Backend,
    T: Selectable<DB>,
    Q: LimitDsl,
    AsSelect<T, DB>: Expression,
    Limit<Q>: SelectDsl<AsSelect<T, DB>>,
{
    Lockable { query: SelectDsl::select(LimitDsl::limit(free, 1), T::as_select()), lock }
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
        match self.lock {
            RowLock::None => {}
            RowLock::Wait => out.push_sql(" FOR NO KEY UPDATE"),
            RowLock::Skip => out.push_sql(" FOR NO KEY UPDATE SKIP LOCKED"),
            RowLock::NoWait => out.push_sql(" FOR NO KEY UPDATE NOWAIT"),
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
