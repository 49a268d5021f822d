//! Connections to PostgreSQL: those of diesel-async, in a pool of deadpool.

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::{self, BuildError};

/// A pool of connections. Its clones share them.
pub type Pool = deadpool::Pool<AsyncPgConnection>;

/// Creates a pool of at most `size` connections. The first one is opened when it is needed.
pub fn connect(database_url: &str, size: usize) -> Result<Pool, BuildError> {
    Pool::builder(AsyncDieselConnectionManager::new(database_url)).max_size(size).build()
}
