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
    use diesel_async::{AsyncConnection as _, AsyncPgConnection};

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

    #[async_trait]
    impl TestSession for AsyncPgConnection {
        async fn open(migrations: Migrations) -> StorageResult<Self> {
            let mut conn = pg_database::connect(&url(migrations).await?).await?;
            conn.begin_test_transaction().await.map_err(storage_error)?;
            Ok(conn)
        }
    }

    #[cfg(feature = "postgres-sync")]
    #[async_trait]
    impl TestSession for diesel::PgConnection {
        async fn open(migrations: Migrations) -> StorageResult<Self> {
            let mut conn: Self = diesel::Connection::establish(&url(migrations).await?).map_err(refused)?;
            diesel::Connection::begin_test_transaction(&mut conn).map_err(storage_error)?;
            Ok(conn)
        }
    }

    #[cfg(feature = "postgres-sync")]
    impl SyncTestSession for diesel::PgConnection {}
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
