//! Connections to PostgreSQL: those of diesel-async, in a pool of deadpool.

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::{BuildError, Object};

/// A pool of connections. Its clones share them.
pub type Pool = diesel_async::pooled_connection::deadpool::Pool<AsyncPgConnection>;

/// A connection of the pool, until it is dropped.
pub type Conn = Object<AsyncPgConnection>;

/// Creates a pool of at most `size` connections. The first one is opened when it is needed.
pub fn connect(database_url: &str, size: usize) -> Result<Pool, BuildError> {
    Pool::builder(AsyncDieselConnectionManager::new(database_url)).max_size(size).build()
}
