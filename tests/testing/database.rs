//! A database for each test. It is dropped when the test has passed.

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_async::AsyncPgConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;

const TABLE: &str = "create table note (text text not null)";

pub(crate) fn server() -> String {
    std::env::var("JOBS_TEST_DATABASE_URL").expect("JOBS_TEST_DATABASE_URL: run `cargo xtask test`")
}

/// The URL of another database on the tests' server.
pub(crate) fn url_of(name: &str) -> String {
    format!("{}/{name}", server().rsplit_once('/').unwrap().0)
}

pub(crate) struct Database(String);

impl Database {
    pub(crate) fn create() -> Self {
        let name = format!("jobs_kit_{}", uuid::Uuid::now_v7().simple());
        let mut admin = PgConnection::establish(&server()).unwrap();
        admin.batch_execute(&format!("create database {name}")).unwrap();
        let database = Self(name);
        let mut conn = PgConnection::establish(&database.url()).unwrap();
        diesel_jobs::migrate(&mut conn).unwrap();
        conn.batch_execute(TABLE).unwrap();
        database
    }

    pub(crate) fn url(&self) -> String {
        url_of(&self.0)
    }

    pub(crate) fn pg(&self) -> PgConnection {
        let mut conn = PgConnection::establish(&self.url()).unwrap();
        conn.begin_test_transaction().unwrap();
        conn
    }

    pub(crate) async fn pg_async(&self) -> AsyncPgConnection {
        use diesel_async::AsyncConnection as _;
        let mut conn = AsyncPgConnection::establish(&self.url()).await.unwrap();
        conn.begin_test_transaction().await.unwrap();
        conn
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let mut admin = PgConnection::establish(&server()).unwrap();
            admin.batch_execute(&format!("drop database {} with (force)", self.0)).unwrap();
        }
    }
}

pub(crate) fn sqlite() -> SqliteConnection {
    let mut conn = SqliteConnection::establish(":memory:").unwrap();
    diesel_jobs::migrate(&mut conn).unwrap();
    conn.batch_execute(TABLE).unwrap();
    conn.begin_test_transaction().unwrap();
    conn
}

pub(crate) async fn sqlite_async() -> SyncConnectionWrapper<SqliteConnection> {
    use diesel_async::{AsyncConnection as _, SimpleAsyncConnection as _};
    let mut conn = SyncConnectionWrapper::<SqliteConnection>::establish(":memory:").await.unwrap();
    diesel_jobs::migrate(&mut conn).await.unwrap();
    conn.batch_execute(TABLE).await.unwrap();
    conn.begin_test_transaction().await.unwrap();
    conn
}
