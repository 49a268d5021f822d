//! Arguments that are rows: a job stores the primary key, and its handler receives the row, which is loaded when the
//! job runs.

mod gone;
mod key;
mod load;
mod loaders;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, reason = "only connections use it")
)]
mod query;
mod take;

use std::fmt;
use std::ops::{Deref, DerefMut};

use diesel::associations::{HasTable, Identifiable};

pub use gone::{Gone, found, found_or_none};
pub use key::{Key, OwnedKey};
pub use load::{AsyncLoadRow, LoadRow};
pub use loaders::{
    AnyLoader, Loadable, Loader, Loaders, NoLoader, NotThroughAsyncPg, NotThroughPg, NotThroughSqlite, ThroughAsyncPg,
    ThroughPg, ThroughSqlite, in_common, loaders,
};
pub use query::RowLock;
pub use take::{AsyncTakeRow, Take, TakeRow, taken};

/// A parameter of a job: a row of one of your tables. The job stores the primary key of the row (a [`Key`]), and the
/// worker loads the row before it calls the handler. If the handler takes a connection, the row is loaded inside the
/// handler's transaction. Otherwise, the worker loads it through a connection from its pool, which it returns before
/// the handler begins.
///
/// ```
/// # mod diesel_jobs { pub use diesel_jobs_storage as rows; }
/// use diesel::prelude::*;
/// use diesel_jobs::rows::{Key, LoadRow, Ref};
///
/// diesel::table! { users (id) { id -> BigInt, name -> Text, } }
///
/// #[derive(Identifiable, Queryable, Selectable)]
/// struct User { id: i64, name: String }
///
/// // #[job]
/// // async fn remind(user: Ref<User>) { println!("{}", user.name); .. }
/// //
/// // Remind::new(&user).enqueue(conn)?;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut conn = SqliteConnection::establish(":memory:")?;
/// # diesel::sql_query("create table users (id integer primary key, name text not null)").execute(&mut conn)?;
/// # diesel::sql_query("insert into users values (7, 'Ada')").execute(&mut conn)?;
/// let key: Key<User> = 7.into();
/// assert_eq!(conn.load_row(&key, false)?.map(|row: User| row.name).as_deref(), Some("Ada"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ref<T>(pub T);

impl<T> Ref<T> {
    /// The row.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Ref<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Ref<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A type whose values are rows with a primary key. Every type that derives Diesel's `Identifiable` implements it.
pub trait Row: HasTable + Sized + 'static {
    /// The primary key, as a value. A composite key is a tuple.
    type PrimaryKey: key::StoredKey;

    /// The row's primary key.
    fn primary_key(&self) -> Self::PrimaryKey;
}

impl<T> Row for T
where
    T: HasTable + 'static,
    &'static T: Identifiable<Id: OwnedKey>,
    for<'row> &'row T: HasKey<<<&'static T as Identifiable>::Id as OwnedKey>::Owned>,
{
    type PrimaryKey = <<&'static T as Identifiable>::Id as OwnedKey>::Owned;

    fn primary_key(&self) -> Self::PrimaryKey {
        self.key()
    }
}

/// A reference to a row with a key of this type. `Row` could require only `Identifiable`, but the compiler cannot infer
/// that the key has the same type for each lifetime of the reference.
pub trait HasKey<K> {
    /// Clones the key.
    fn key(self) -> K;
}

impl<K, R: Identifiable<Id: OwnedKey<Owned = K>>> HasKey<K> for R {
    fn key(self) -> K {
        self.id().into_owned_key()
    }
}
