//! `query.enqueue_each(conn, columns)`: one job per row of a query, with one `INSERT .. SELECT`. Jobs with a limit or a
//! key, or that expire, are enqueued as `enqueue_all` does it: the keys are made in one place only.

mod argument;
mod columns;

use diesel::Expression;
use diesel::dsl::Select;
use diesel::query_dsl::methods::SelectDsl;
use diesel_jobs_core::__private::{JobsOfRows, sending_each};
use diesel_jobs_core::InvalidJob;

pub use argument::{ColumnArgument, IntoColumn};
pub use columns::JobColumns;
use columns::Key;

use crate::enqueue_connection::EnqueueConnection;
use crate::error::EnqueueError;

/// Enqueues a job for each row of a query.
pub trait EnqueueEach: Sized {
    /// Inserts one job per row of the query, in the order of the query, and returns the number of jobs. The database
    /// does this with one `INSERT .. SELECT`, so the rows are not sent to the client. If the connection is in a
    /// transaction, the jobs are a part of it. A sync connection returns a `Result<usize, EnqueueError>`, and an async
    /// connection returns a future of it.
    ///
    /// If the kind has a limit, a sequence, a rate or a unique key, if its jobs expire, or if a column is JSON, the
    /// arguments are sent to the client after all, several hundred rows at a time. The jobs are then inserted in a
    /// transaction of their own, or in a savepoint if the connection is already in a transaction. For unique jobs, the
    /// returned number counts only the jobs that were inserted.
    ///
    /// `#[job]` generates a function `columns` for each job with arguments. It takes an expression of the query, or a
    /// value, for each argument. The SQL type of an expression must be that of the argument; see [`ColumnArgument`] for
    /// the types. The arguments of one job may take at most 256 KiB: PostgreSQL rejects the statement if those of any
    /// job are larger, and SQLite does not check their size.
    ///
    /// ```
    /// # mod diesel_jobs { pub use diesel_jobs_storage::{self as enqueue, migrate}; }
    /// use diesel::prelude::*;
    /// use diesel_jobs::enqueue::{EnqueueEach, JobColumns};
    /// # mod prelude { pub use diesel_jobs_core::Job; }
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct SendNudge { user_id: i64, template: String }
    /// # impl diesel_jobs_core::Job for SendNudge { const KIND: &'static str = "send_nudge"; }
    /// # impl SendNudge {
    /// #     fn columns<A: diesel_jobs::enqueue::IntoColumn<i64, X>, B: diesel_jobs::enqueue::IntoColumn<String, Y>, X, Y>(a: A, b: B) -> JobColumns<Self, (X, Y)> {
    /// #         JobColumns::new((a.into_column(), b.into_column()), &[("user_id", A::in_sqlite, A::IS_JSON), ("template", B::in_sqlite, B::IS_JSON)])
    /// #     }
    /// # }
    ///
    /// diesel::table! { users (id) { id -> BigInt, inactive -> Bool, } }
    ///
    /// // #[job(queue = "mail")]
    /// // async fn send_nudge(user_id: i64, template: String) -> Result<(), MailError> { .. }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # diesel_jobs::migrate(&mut conn)?;
    /// # diesel::sql_query("create table users (id integer primary key, inactive boolean not null)").execute(&mut conn)?;
    /// # diesel::sql_query("insert into users (inactive) values (true), (false), (true)").execute(&mut conn)?;
    /// let nudged = users::table
    ///     .filter(users::inactive.eq(true))
    ///     .enqueue_each(&mut conn, SendNudge::columns(users::id, "v2").priority(-5))?;
    /// assert_eq!(nudged, 2);
    /// # Ok(())
    /// # }
    /// ```
    fn enqueue_each<'c, J, E, C, M>(
        self,
        conn: &'c mut C,
        columns: JobColumns<J, E>,
    ) -> C::Output<'c, usize, EnqueueError>
    where
        E: Expression,
        Self: SelectDsl<E>,
        C: InsertEach<M, Select<Self, E>>,
        Select<Self, E>: 'c,
    {
        let JobColumns { job, expressions, keys, .. } = columns;
        let have_json = keys.iter().any(|(_, _, is_json)| *is_json);
        let mut jobs = job.of_rows().map(|jobs| jobs.having_json(have_json));
        let rows = Rows { query: SelectDsl::select(self, expressions), keys };
        sending_each(&mut jobs).in_scope(|| conn.insert_each(jobs, rows))
    }
}

impl<Q: diesel::QueryDsl> EnqueueEach for Q {}

/// The rows of a query, and the argument that each of its columns provides.
#[derive(Debug)]
#[cfg_attr(not(any(feature = "postgres", feature = "sqlite")), allow(dead_code, reason = "only statements read them"))]
pub struct Rows<Q> {
    pub(crate) query: Q,
    pub(crate) keys: Vec<Key>,
}

/// A connection that can enqueue a job for each row of the query `Q`.
#[cfg_attr(
    all(feature = "postgres", feature = "sqlite"),
    diagnostic::on_unimplemented(message = "the rows of this query cannot be enqueued through `{Self}`")
)]
#[cfg_attr(
    all(feature = "sqlite", not(feature = "postgres")),
    diagnostic::on_unimplemented(
        message = "the rows of this query cannot be enqueued through `{Self}`; a connection to PostgreSQL needs `diesel-jobs = {{ features = [\"postgres\"] }}` \
                   in Cargo.toml"
    )
)]
#[cfg_attr(
    not(feature = "sqlite"),
    diagnostic::on_unimplemented(
        message = "the rows of this query cannot be enqueued through `{Self}`; a connection to PostgreSQL needs \
                   `diesel-jobs = {{ features = [\"postgres\"] }}` in Cargo.toml, and one to SQLite needs `features = [\"sqlite\"]`"
    )
)]
#[diagnostic::on_unimplemented(
    label = "not a connection to the query's database that `diesel-jobs` knows",
    note = "every expression of the query must be one of this database; `Timestamptz`, `Uuid` and arrays are PostgreSQL's"
)]
pub trait InsertEach<M, Q>: EnqueueConnection<M> {
    /// Inserts one of these jobs for each row, and returns the number of jobs that were inserted.
    fn insert_each<'c>(
        &'c mut self,
        jobs: Result<JobsOfRows, InvalidJob>,
        rows: Rows<Q>,
    ) -> Self::Output<'c, usize, EnqueueError>
    where
        Q: 'c;
}

/// Names the columns of the query: `c0, c1, ..`.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn names(columns: usize) -> String {
    (0..columns).map(name).collect::<Vec<_>>().join(", ")
}

/// The name of one column of the query.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn name(column: usize) -> String {
    format!("c{column}")
}

/// How many of these jobs were inserted.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn count_new(enqueued: &[diesel_jobs_core::Enqueued]) -> usize {
    enqueued.iter().filter(|answer| answer.is_new()).count()
}
