//! Connections to PostgreSQL: Diesel's own, in a pool of r2d2.

use std::time::Duration;

use diesel::PgConnection;
use diesel::r2d2::{self, ConnectionManager, PoolError};

/// A pool of connections. Its clones share them.
pub type Pool = r2d2::Pool<ConnectionManager<PgConnection>>;

/// Postgres allows a hundred connections in total by default, for all its clients.
const CONNECTIONS: u32 = 16;

/// How long a request waits for a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens a pool. Fails if the database cannot be reached.
pub fn connect(database_url: &str) -> Result<Pool, PoolError> {
    let pool = Pool::builder().max_size(CONNECTIONS).min_idle(Some(1)).connection_timeout(CONNECTION_TIMEOUT);
    pool.build(ConnectionManager::new(database_url))
}
