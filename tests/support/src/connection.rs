//! A connection of the application, to either database.

use diesel::SqliteConnection;
use diesel::connection::SimpleConnection as _;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_jobs::enqueue::IntoNewJob;
use diesel_jobs::{Enqueue, JobId};

/// A connection of the application.
#[allow(missing_debug_implementations)]
pub enum Conn {
    /// To PostgreSQL.
    Postgres(Box<AsyncPgConnection>),
    /// To SQLite.
    Sqlite(Box<SqliteConnection>),
}

#[derive(diesel::QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

#[derive(diesel::QueryableByName)]
struct Words {
    #[diesel(sql_type = Text)]
    text: String,
}

pub(crate) async fn pg_number(conn: &mut AsyncPgConnection, sql: &str) -> i64 {
    let row: Number = diesel_async::RunQueryDsl::get_result(diesel::sql_query(sql), conn)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    row.number
}

/// SQL is written for PostgreSQL's tables. On SQLite `jobs.x` becomes `jobs_x`.
fn for_sqlite(sql: &str) -> String {
    sql.replace("jobs.", "jobs_")
}

impl Conn {
    /// Runs statements.
    pub async fn execute(&mut self, sql: &str) {
        let done = match self {
            Self::Postgres(conn) => conn.batch_execute(sql).await,
            Self::Sqlite(conn) => conn.batch_execute(&for_sqlite(sql)),
        };
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Returns the column `number` of a query's single row.
    pub async fn number(&mut self, sql: &str) -> i64 {
        match self {
            Self::Postgres(conn) => pg_number(conn, sql).await,
            Self::Sqlite(conn) => {
                let row: Number = diesel::RunQueryDsl::get_result(diesel::sql_query(for_sqlite(sql)), &mut **conn)
                    .unwrap_or_else(|error| panic!("{sql}: {error}"));
                row.number
            }
        }
    }

    /// Returns the column `text` of all rows of a query.
    pub async fn texts(&mut self, sql: &str) -> Vec<String> {
        let rows: Vec<Words> = match self {
            Self::Postgres(conn) => diesel_async::RunQueryDsl::load(diesel::sql_query(sql), &mut **conn).await,
            Self::Sqlite(conn) => diesel::RunQueryDsl::load(diesel::sql_query(for_sqlite(sql)), &mut **conn),
        }
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.into_iter().map(|row| row.text).collect()
    }

    /// Enqueues a job, which must be accepted.
    pub async fn enqueue(&mut self, job: impl IntoNewJob) -> JobId {
        let job = job.into_new_job().unwrap();
        match self {
            Self::Postgres(conn) => job.enqueue(&mut **conn).await,
            Self::Sqlite(conn) => job.enqueue(&mut **conn),
        }
        .unwrap()
        .into()
    }

    /// Enqueues many in one call.
    pub async fn enqueue_all<J: IntoNewJob>(&mut self, jobs: impl IntoIterator<Item = J>) -> Vec<JobId> {
        let jobs: Vec<_> = jobs.into_iter().map(|job| job.into_new_job().unwrap()).collect();
        let enqueued = match self {
            Self::Postgres(conn) => diesel_jobs::enqueue_all(&mut **conn, jobs).await,
            Self::Sqlite(conn) => diesel_jobs::enqueue_all(&mut **conn, jobs),
        }
        .unwrap();
        enqueued.into_iter().map(JobId::from).collect()
    }
}
