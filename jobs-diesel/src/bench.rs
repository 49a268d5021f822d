//! What `worker bench` needs from a database: a separate place for its jobs, and measurements of the server. This is
//! not a public interface: it changes without notice.
//!
//! The load must run the same statements as workers and applications, and must not touch the user's jobs. On PostgreSQL
//! it uses a separate schema, [`SCHEMA`], over connections that rename the schema in the messages to the server. On
//! SQLite it uses a separate directory beside the file.

pub(crate) mod load_test_database;

use std::sync::Arc;

use diesel_jobs_core::storage::{Storage, StorageResult};

use crate::backend::Backend;
pub use load_test_database::{LoadTestDatabase, Others, PlaceError, Producer, SCHEMA, Server, Waits};

/// Returns the [`LoadTestDatabase`] for a URL: the database with the separate place for the load test. Connects at the
/// first use.
pub async fn load_test_database(url: &str) -> StorageResult<Box<dyn LoadTestDatabase>> {
    match Backend::of(url)? {
        #[cfg(feature = "postgres")]
        Backend::Postgres => Ok(Box::new(crate::pg::bench::PgLoadTest::new(url)?)),
        #[cfg(feature = "sqlite")]
        Backend::Sqlite => Ok(Box::new(crate::sqlite::bench::SqliteLoadTest::new(url)?)),
        #[allow(unreachable_patterns)] // reachable when a feature is off
        backend => Err(backend.not_built_in()),
    }
}

/// Returns the storage of a worker that runs the load. [`LoadTestDatabase::prepare`] must have made the place before.
pub async fn storage(url: &str) -> StorageResult<Arc<dyn Storage>> {
    match Backend::of(url)? {
        #[cfg(feature = "postgres")]
        Backend::Postgres => crate::pg::bench::storage(url),
        #[cfg(feature = "sqlite")]
        Backend::Sqlite => crate::sqlite::bench::storage(url).await,
        #[allow(unreachable_patterns)] // reachable when a feature is off
        backend => Err(backend.not_built_in()),
    }
}
