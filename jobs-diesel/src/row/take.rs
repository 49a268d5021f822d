//! A free row of a table, taken for one attempt.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use diesel::QueryResult;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::dsl::{AsSelect, Limit};
#[cfg(any(feature = "sqlite", feature = "postgres-sync"))]
use diesel::query_dsl::methods::LoadQuery;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::query_dsl::methods::{LimitDsl, SelectDsl};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use diesel::{Expression, OptionalExtension as _, Selectable};
use diesel_jobs_core::{Handled, JobError, Outcome};
use futures_util::future::BoxFuture;

use super::RowLock;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::query::{self, FreeRowQuery};

/// How long a job snoozes if no row is free.
const SNOOZE: Duration = Duration::from_secs(5);

/// A parameter of a job: a row of one of your tables that no other attempt holds, such as a coupon or a licence. The
/// worker selects and locks the row inside the handler's transaction, so the handler must also take a connection. The
/// lock ends with the transaction, and a change or deletion of the row by the handler is committed only together with
/// the end of the attempt. If no row is free, the job snoozes for 5 s.
///
/// ```
/// # mod diesel_jobs { pub use diesel_jobs_storage as rows; }
/// use diesel::prelude::*;
/// use diesel_jobs::rows::{RowLock, Take, TakeRow};
///
/// diesel::table! { coupons (code) { code -> Text, used_by -> Nullable<BigInt>, } }
///
/// #[derive(Queryable, Selectable)]
/// struct Coupon { code: String }
///
/// #[diesel::dsl::auto_type]
/// fn free_coupons() -> _ { coupons::table.filter(coupons::used_by.is_null()) }
///
/// // #[job]
/// // fn give(user_id: i64, #[arg(from = free_coupons)] coupon: Take<Coupon>, conn: &mut SqliteConnection) -> QueryResult<()> { .. }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut conn = SqliteConnection::establish(":memory:")?;
/// # diesel::sql_query("create table coupons (code text primary key, used_by bigint)").execute(&mut conn)?;
/// # diesel::sql_query("insert into coupons values ('old', 3), ('new', null)").execute(&mut conn)?;
/// // The generated code calls this:
/// let coupon: Option<Coupon> = conn.take_row(free_coupons(), RowLock::Skip)?;
/// assert_eq!(coupon.map(Take).unwrap().code, "new");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Take<T>(pub T);

impl<T> Take<T> {
    /// The row.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Take<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Take<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Take<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sync connection that can take a row of `T` from the query `Q`.
#[diagnostic::on_unimplemented(
    message = "a `{T}` cannot be taken from this query through a `{Self}`",
    note = "derive Diesel's `Queryable` and `Selectable` for `{T}`; the query is a table or a filter of one, and has no `select`"
)]
pub trait TakeRow<T, Q> {
    /// Selects and locks the first row that is free.
    fn take_row(&mut self, free: Q, lock: RowLock) -> QueryResult<Option<T>>;
}

/// An async connection that can take a row of `T` from the query `Q`.
#[diagnostic::on_unimplemented(
    message = "a `{T}` cannot be taken from this query through a `{Self}`",
    note = "derive Diesel's `Queryable` and `Selectable` for `{T}`; the query is a table or a filter of one, and has no `select`"
)]
pub trait AsyncTakeRow<T, Q> {
    /// Selects and locks the first row that is free.
    fn take_row<'c>(&'c mut self, free: Q, lock: RowLock) -> BoxFuture<'c, QueryResult<Option<T>>>
    where
        Q: 'c;
}

macro_rules! take_row {
    ($feature:literal, $connection:ty, $backend:ty) => {
        #[cfg(feature = $feature)]
        #[diagnostic::do_not_recommend]
        impl<T, Q> TakeRow<T, Q> for $connection
        where
            T: Selectable<$backend>,
            Q: LimitDsl,
            AsSelect<T, $backend>: Expression,
            Limit<Q>: SelectDsl<AsSelect<T, $backend>>,
            FreeRowQuery<T, Q, $backend>: LoadQuery<'static, $connection, T>,
        {
            fn take_row(&mut self, free: Q, lock: RowLock) -> QueryResult<Option<T>> {
                diesel::RunQueryDsl::get_result(query::free_row::<T, Q, $backend>(free, lock), self).optional()
            }
        }
    };
}

take_row!("postgres-sync", diesel::PgConnection, diesel::pg::Pg);
take_row!("sqlite", diesel::SqliteConnection, diesel::sqlite::Sqlite);

#[cfg(feature = "postgres")]
#[diagnostic::do_not_recommend]
impl<T, Q> AsyncTakeRow<T, Q> for diesel_async::AsyncPgConnection
where
    T: Selectable<diesel::pg::Pg> + Send,
    Q: LimitDsl,
    AsSelect<T, diesel::pg::Pg>: Expression,
    Limit<Q>: SelectDsl<AsSelect<T, diesel::pg::Pg>>,
    FreeRowQuery<T, Q, diesel::pg::Pg>: diesel_async::methods::LoadQuery<'static, Self, T> + Send + 'static,
{
    fn take_row<'c>(&'c mut self, free: Q, lock: RowLock) -> BoxFuture<'c, QueryResult<Option<T>>>
    where
        Q: 'c,
    {
        let query = query::free_row::<T, Q, diesel::pg::Pg>(free, lock);
        Box::pin(async move { diesel_async::RunQueryDsl::get_result(query, self).await.optional() })
    }
}

/// Returns the row, or how the attempt ends without it.
pub fn taken<T>(loaded: QueryResult<Option<T>>) -> Result<Take<T>, Handled> {
    match loaded {
        Ok(Some(row)) => Ok(Take(row)),
        Ok(None) => Err(Ok(Outcome::Snooze(SNOOZE))),
        Err(error) => Err(Err(JobError::new(error))),
    }
}
