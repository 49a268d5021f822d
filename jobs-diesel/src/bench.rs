//! What `worker bench` needs of a database: a place of its own in it, and its vital signs. Not for people: it changes
//! without notice.
//!
//! The load must meet the statements that workers and applications really send, and must not meet the user's jobs. On
//! PostgreSQL it gets a schema of its own, [`SCHEMA`], on connections that rename the schema on the wire; on SQLite a
//! directory of its own beside the file.

pub(crate) mod ground;

use std::sync::Arc;

use diesel_jobs_core::storage::{Storage, StorageResult};

use crate::backend::Backend;
pub use ground::{Ground, Others, PlaceError, Producer, SCHEMA, Server, Waits};

/// The ground behind a URL. Connects lazily.
pub async fn ground(url: &str) -> StorageResult<Box<dyn Ground>> {
    match Backend::of(url)? {
        #[cfg(feature = "postgres")]
        Backend::Postgres => Ok(Box::new(crate::pg::bench::PgGround::new(url)?)),
        #[cfg(feature = "sqlite")]
        Backend::Sqlite => Ok(Box::new(crate::sqlite::bench::SqliteGround::new(url)?)),
        #[allow(unreachable_patterns)] // reachable when a feature is off
        backend => Err(backend.not_built_in()),
    }
}

/// The storage of a worker that runs the load, once the place is there.
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
