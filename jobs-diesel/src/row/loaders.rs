//! Finds out through which connections the rows of a type can be loaded, for handlers that take no connection. The
//! compiler decides this by method resolution. `(&Loadable::<T>::NEW).through_sqlite()` calls [`ThroughSqlite`] if that
//! trait is implemented for `Loadable<T>`. Otherwise it calls [`NotThroughSqlite`], which is implemented for the
//! reference.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use diesel::QueryResult;
use diesel::result::Error as DieselError;
use diesel_jobs_core::{AnyConnection, TypeKey};
use futures_util::future::BoxFuture;

use super::Key;
#[cfg(feature = "postgres")]
use super::load::AsyncLoadRow;
#[cfg(any(feature = "sqlite", feature = "postgres-sync"))]
use super::load::LoadRow;

/// Loads the row of a key, through a connection of the type that the loader is for.
type Load<T> = for<'c> fn(AnyConnection<'c>, &Key<T>) -> BoxFuture<'c, QueryResult<Option<T>>>;

/// Loads rows of `T` through one type of connection.
pub struct Loader<T> {
    connection: TypeKey,
    load: Load<T>,
}

/// Rows of `T` cannot be loaded through a type of connection.
pub struct NoLoader<T>(PhantomData<fn() -> T>);

/// What the macro asks for each type of connection.
pub struct Loadable<T>(PhantomData<fn() -> T>);

impl<T> Loadable<T> {
    /// The only value.
    pub const NEW: Self = Self(PhantomData);
}

macro_rules! through {
    ($yes:ident, $no:ident, $method:ident, $connection:literal) => {
        #[doc = concat!("Rows that can be loaded through a `", $connection, "`.")]
        pub trait $yes<T> {
            /// The loader.
            fn $method(&self) -> Loader<T>;
        }

        #[doc = concat!("All other types, for a `", $connection, "`.")]
        pub trait $no<T> {
            /// None.
            fn $method(&self) -> NoLoader<T>;
        }

        impl<T> $no<T> for &Loadable<T> {
            fn $method(&self) -> NoLoader<T> {
                NoLoader(PhantomData)
            }
        }
    };
}

through!(ThroughAsyncPg, NotThroughAsyncPg, through_async_pg, "AsyncPgConnection");
through!(ThroughPg, NotThroughPg, through_pg, "PgConnection");
through!(ThroughSqlite, NotThroughSqlite, through_sqlite, "SqliteConnection");

#[cfg(feature = "postgres")]
impl<T: Send + 'static> ThroughAsyncPg<T> for Loadable<T>
where
    diesel_async::AsyncPgConnection: AsyncLoadRow<T>,
{
    fn through_async_pg(&self) -> Loader<T> {
        Loader {
            connection: TypeKey::of::<diesel_async::AsyncPgConnection>(),
            load: |connection, key| match connection.downcast_mut::<diesel_async::AsyncPgConnection>() {
                Some(connection) => connection.load_row(key, false),
                None => Box::pin(std::future::ready(Err(wrong_connection::<T>()))),
            },
        }
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres-sync"))]
macro_rules! load_at_once {
    ($connection:ty) => {
        Loader {
            connection: TypeKey::of::<$connection>(),
            load: |connection, key| {
                let row = match connection.downcast_mut::<$connection>() {
                    Some(connection) => connection.load_row(key, false),
                    None => Err(wrong_connection::<T>()),
                };
                Box::pin(std::future::ready(row))
            },
        }
    };
}

/// Only tests use it: workers load rows through an `AsyncPgConnection`, so that must be possible, too.
#[cfg(feature = "postgres-sync")]
impl<T: Send + 'static> ThroughPg<T> for Loadable<T>
where
    diesel::PgConnection: LoadRow<T>,
    diesel_async::AsyncPgConnection: AsyncLoadRow<T>,
{
    fn through_pg(&self) -> Loader<T> {
        load_at_once!(diesel::PgConnection)
    }
}

#[cfg(feature = "sqlite")]
impl<T: Send + 'static> ThroughSqlite<T> for Loadable<T>
where
    diesel::SqliteConnection: LoadRow<T>,
{
    fn through_sqlite(&self) -> Loader<T> {
        load_at_once!(diesel::SqliteConnection)
    }
}

/// What the macro got for the three types of connections. One of them must be a loader.
#[diagnostic::on_unimplemented(
    message = "no connection can load `{T}`",
    label = "not a row that a worker can load",
    note = "derive Diesel's `Identifiable`, `Queryable` and `Selectable` for `{T}`, which must be `Send`",
    note = "its columns must be of types that PostgreSQL or SQLite has, and the feature `postgres` or `sqlite` must be on"
)]
pub trait AnyLoader<T> {
    /// The loaders.
    fn loaders(self) -> Loaders<T>;
}

impl<T> From<NoLoader<T>> for Option<Loader<T>> {
    fn from(_: NoLoader<T>) -> Self {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<T, B: Into<Option<Loader<T>>>, C: Into<Option<Loader<T>>>> AnyLoader<T> for (Loader<T>, B, C) {
    fn loaders(self) -> Loaders<T> {
        Loaders([Some(self.0), self.1.into(), self.2.into()])
    }
}

#[diagnostic::do_not_recommend]
impl<T> AnyLoader<T> for (NoLoader<T>, NoLoader<T>, Loader<T>) {
    fn loaders(self) -> Loaders<T> {
        Loaders([None, None, Some(self.2)])
    }
}

/// The loaders of the types of connections through which rows of `T` can be loaded.
pub struct Loaders<T>([Option<Loader<T>>; 3]);

impl<T> fmt::Debug for Loaders<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().flatten().map(|loader| loader.connection.name)).finish()
    }
}

/// Returns the loaders of a type of rows.
pub fn loaders<T, A: AnyLoader<T>>(of_connections: A) -> Loaders<T> {
    of_connections.loaders()
}

impl<T: Send + 'static> Loaders<T> {
    /// The types of the connections.
    pub fn connections(&self) -> Vec<TypeKey> {
        self.0.iter().flatten().map(|loader| loader.connection).collect()
    }

    /// Loads the row of the key, or `None` if there is none.
    pub fn load<'c>(&self, connection: AnyConnection<'c>, key: &Key<T>) -> BoxFuture<'c, QueryResult<Option<T>>> {
        let id: TypeId = (*connection).type_id();
        match self.0.iter().flatten().find(|loader| loader.connection.id == id) {
            Some(loader) => (loader.load)(connection, key),
            None => Box::pin(std::future::ready(Err(wrong_connection::<T>()))),
        }
    }
}

/// Returns the types of connections through which all rows of a handler can be loaded.
pub fn in_common(rows: &[Vec<TypeKey>]) -> Vec<TypeKey> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    first.iter().copied().filter(|connection| others.iter().all(|other| other.contains(connection))).collect()
}

/// The registry has compared the types before the worker starts.
fn wrong_connection<T>() -> DieselError {
    DieselError::QueryBuilderError(
        format!("`{}` cannot be loaded through this connection", std::any::type_name::<T>()).into(),
    )
}
