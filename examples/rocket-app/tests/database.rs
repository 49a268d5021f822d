//! Databases and connections for one test.

use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_jobs::testing::TestDatabase;
use rocket_app::{Pool, connect};

/// Creates a database with the library's and the jobs' tables.
pub(crate) async fn database() -> TestDatabase {
    TestDatabase::builder().migrations("migrations").create().await.expect("run `cargo xtask test`")
}

/// A connection that commits.
pub(crate) async fn connection(database: &TestDatabase) -> AsyncPgConnection {
    AsyncPgConnection::establish(database.url()).await.unwrap()
}

/// A pool for the application. Its only connection is inside a test transaction, so only the test sees what the
/// application did.
pub(crate) async fn pool(database: &TestDatabase) -> Pool {
    let pool = connect(database.url(), 1).unwrap();
    pool.get().await.unwrap().begin_test_transaction().await.unwrap();
    pool
}
