//! Connections to PostgreSQL: diesel-async's, in a deadpool.

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::{BuildError, Object};

/// Connections to share. Cloning it shares them.
pub type Pool = diesel_async::pooled_connection::deadpool::Pool<AsyncPgConnection>;

/// One of them, until it is dropped.
pub type Conn = Object<AsyncPgConnection>;

/// A pool of at most `size` connections; the first is made when somebody asks for it.
pub fn connect(database_url: &str, size: usize) -> Result<Pool, BuildError> {
    Pool::builder(AsyncDieselConnectionManager::new(database_url)).max_size(size).build()
}
