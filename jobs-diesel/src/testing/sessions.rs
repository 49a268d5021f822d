//! The connections that `#[diesel_jobs::test]` opens. On SQLite each test has a database in memory. On PostgreSQL all
//! tests with the same migrations share a database, where each is in a transaction of its own.

use async_trait::async_trait;
use diesel_jobs_core::StorageError;
use diesel_jobs_core::storage::StorageResult;

#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
use super::session::SyncTestSession;
use super::session::{Migrations, TestSession};

#[cfg(any(feature = "postgres-sync", feature = "sqlite"))]
fn refused(error: impl std::fmt::Display) -> StorageError {
    StorageError::Refused(error.to_string().into())
}

#[cfg(feature = "postgres")]
mod pg {
    use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};

    use super::*;
    use crate::error::storage_error;
    use crate::testing::{database, pg_database};

    /// The URL of the database that tests with these migrations share.
    async fn url(Migrations(all): Migrations) -> StorageResult<String> {
        let server = database::server("")?;
        if server.starts_with("sqlite:") {
            let problem = "the test takes a connection to PostgreSQL, but TEST_DATABASE_URL or DATABASE_URL is of SQLite; \
                           set TEST_DATABASE_URL to the URL of a PostgreSQL database whose role may create databases";
            return Err(StorageError::Config(problem.to_owned()));
        }
        pg_database::shared(&server, &all).await
    }

    /// Bounds each wait for a lock in the transaction of a test, unless the server or the URL does: a test that
    /// enqueues the unique key of another one waits until that has ended, and nothing says why.
    const WAIT_BRIEFLY: &str =
        "select set_config('lock_timeout', '20s', true) where current_setting('lock_timeout') = '0'";

    #[async_trait]
    impl TestSession for AsyncPgConnection {
        async fn open(migrations: Migrations) -> StorageResult<Self> {
            let mut conn = pg_database::connect(&url(migrations).await?).await?;
            conn.begin_test_transaction().await.map_err(storage_error)?;
            conn.batch_execute(WAIT_BRIEFLY).await.map_err(storage_error)?;
            Ok(conn)
        }
    }

    #[cfg(feature = "postgres-sync")]
    #[async_trait]
    impl TestSession for diesel::PgConnection {
        async fn open(migrations: Migrations) -> StorageResult<Self> {
            let mut conn: Self = diesel::Connection::establish(&url(migrations).await?).map_err(refused)?;
            diesel::Connection::begin_test_transaction(&mut conn).map_err(storage_error)?;
            diesel::connection::SimpleConnection::batch_execute(&mut conn, WAIT_BRIEFLY).map_err(storage_error)?;
            Ok(conn)
        }
    }

    #[cfg(feature = "postgres-sync")]
    impl SyncTestSession for diesel::PgConnection {}

    #[cfg(test)]
    #[allow(clippy::unwrap_used, clippy::expect_used)]
    mod tests {
        use diesel::sql_types::Text;
        use diesel_async::RunQueryDsl as _;

        use super::*;

        #[tokio::test]
        async fn a_limit_of_the_server_stays() {
            let server = std::env::var("JOBS_TEST_DATABASE_URL").expect("run `cargo xtask test`");
            for (limit, expected) in [("0", "20s"), ("5s", "5s")] {
                let mut conn = pg_database::connect(&server).await.unwrap();
                conn.batch_execute(&format!("set lock_timeout = '{limit}'; begin")).await.unwrap();
                conn.batch_execute(WAIT_BRIEFLY).await.unwrap();
                let current = diesel::dsl::sql::<Text>("current_setting('lock_timeout')");
                assert_eq!(diesel::select(current).get_result::<String>(&mut conn).await.unwrap(), expected);
            }
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use diesel::{Connection as _, SqliteConnection};
    use diesel_async::AsyncConnection as _;
    use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

    use super::*;
    use crate::error::storage_error;
    use crate::testing::database;

    fn in_memory(Migrations(all): Migrations) -> StorageResult<SqliteConnection> {
        let mut conn = SqliteConnection::establish(":memory:").map_err(refused)?;
        database::fill_sqlite(&mut conn, &all)?;
        Ok(conn)
    }

    #[async_trait]
    impl TestSession for SqliteConnection {
        async fn open(migrations: Migrations) -> StorageResult<Self> {
            let mut conn = in_memory(migrations)?;
            diesel::Connection::begin_test_transaction(&mut conn).map_err(storage_error)?;
            Ok(conn)
        }
    }

    impl SyncTestSession for SqliteConnection {}

    #[async_trait]
    impl TestSession for SyncConnectionWrapper<SqliteConnection> {
        async fn open(migrations: Migrations) -> StorageResult<Self> {
            let mut conn = Self::new(in_memory(migrations)?);
            conn.begin_test_transaction().await.map_err(storage_error)?;
            Ok(conn)
        }
    }
}
