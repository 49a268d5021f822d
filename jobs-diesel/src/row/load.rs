//! Loads the row of a key through each type of connection that a handler may take.

use diesel::QueryResult;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::dsl::{AsSelect, Find};
#[cfg(any(feature = "sqlite", feature = "postgres-sync"))]
use diesel::query_dsl::methods::LoadQuery;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::query_dsl::methods::{FindDsl, SelectDsl};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::{Expression, OptionalExtension as _, Selectable};
use futures_util::future::BoxFuture;

use super::Key;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::Row;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::query::{self, RowQuery};

/// A sync connection that can load rows of `T` by their primary key.
///
/// ```compile_fail,E0277
/// # use diesel_jobs_storage::LoadRow;
/// struct NoRow;
/// fn check<C: LoadRow<NoRow>>() {}
/// check::<diesel::SqliteConnection>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{T}` cannot be loaded through a `{Self}`",
    note = "derive Diesel's `Identifiable`, `Queryable` and `Selectable` for `{T}`, for the database of this connection"
)]
pub trait LoadRow<T> {
    /// Loads the row, or returns `None` if there is none. With `lock`, the row is locked with `FOR NO KEY UPDATE`,
    /// which waits for other transactions that have locked it. SQLite ignores `lock`, because it has no row locks: a
    /// handler's transaction is the only one that can write.
    ///
    /// # Errors
    ///
    /// Returns an error if the query fails, or if the stored JSON is not a key of `T` (`DeserializationError`).
    fn load_row(&mut self, key: &Key<T>, lock: bool) -> QueryResult<Option<T>>;
}

/// An async connection that can load rows of `T` by their primary key.
#[diagnostic::on_unimplemented(
    message = "`{T}` cannot be loaded through a `{Self}`",
    note = "derive Diesel's `Identifiable`, `Queryable` and `Selectable` for `{T}`, for the database of this connection"
)]
pub trait AsyncLoadRow<T> {
    /// Loads the row, or returns `None` if there is none. With `lock`, the row is locked with `FOR NO KEY UPDATE`,
    /// which waits for other transactions that have locked it.
    fn load_row<'c>(&'c mut self, key: &Key<T>, lock: bool) -> BoxFuture<'c, QueryResult<Option<T>>>;
}

// Each impl has `do_not_recommend`, so that the compiler prints the message of the trait and not the first of Diesel's
// traits that is missing.
macro_rules! load_row {
    ($feature:literal, $connection:ty, $backend:ty) => {
        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl<T> LoadRow<T> for $connection
        where
            T: Row + Selectable<$backend>,
            T::Table: FindDsl<T::PrimaryKey>,
            AsSelect<T, $backend>: Expression,
            Find<T::Table, T::PrimaryKey>: SelectDsl<AsSelect<T, $backend>>,
            RowQuery<T, $backend>: LoadQuery<'static, $connection, T>,
        {
            fn load_row(&mut self, key: &Key<T>, lock: bool) -> QueryResult<Option<T>> {
                diesel::RunQueryDsl::get_result(query::row::<T, $backend>(key, lock)?, self).optional()
            }
        }
    };
}

load_row!("postgres-sync", diesel::PgConnection, diesel::pg::Pg);
load_row!("sqlite", diesel::SqliteConnection, diesel::sqlite::Sqlite);

#[cfg(feature = "postgres")]
#[diagnostic::do_not_recommend]
impl<T> AsyncLoadRow<T> for diesel_async::AsyncPgConnection
where
    T: Row + Selectable<diesel::pg::Pg> + Send,
    T::Table: FindDsl<T::PrimaryKey>,
    AsSelect<T, diesel::pg::Pg>: Expression,
    Find<T::Table, T::PrimaryKey>: SelectDsl<AsSelect<T, diesel::pg::Pg>>,
    RowQuery<T, diesel::pg::Pg>: diesel_async::methods::LoadQuery<'static, Self, T> + Send + 'static,
{
    fn load_row<'c>(&'c mut self, key: &Key<T>, lock: bool) -> BoxFuture<'c, QueryResult<Option<T>>> {
        let query = query::row::<T, diesel::pg::Pg>(key, lock);
        Box::pin(async move { diesel_async::RunQueryDsl::get_result(query?, self).await.optional() })
    }
}
