//! Databases and pools for one test.

use actix_app::Pool;
use diesel::r2d2::{ConnectionManager, TestCustomizer};
use diesel_jobs::testing::TestDatabase;

/// Creates a database with the desk's and the jobs' tables.
pub(crate) fn database() -> TestDatabase {
    TestDatabase::builder().migrations("migrations").create_blocking().expect("run `cargo xtask test`")
}

/// A pool for the application. Its only connection is inside a test transaction, so only the test sees what the
/// application did.
pub(crate) fn pool(database: &TestDatabase) -> Pool {
    let pool = Pool::builder().max_size(1).connection_customizer(Box::new(TestCustomizer));
    pool.build(ConnectionManager::new(database.url())).unwrap()
}
