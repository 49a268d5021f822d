//! The pools of connections of diesel-async.

use std::sync::Arc;
use std::time::Instant;

use deadpool::managed::{Metrics, PoolError, QueueMode, RecycleError, RecycleResult, TimeoutType};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::PoolableConnection as _;
use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{Installation, StorageError};

use super::connect::{Connector, NO_ANSWER};
use super::not_connected::NotConnected;
use super::queries::installation;
use super::rotation::Pooled;
use super::{CHECKOUT_LIMIT, PgStorage, run, unavailable};

pub(crate) type Pool = deadpool::managed::Pool<Manager>;
pub(crate) type Object = deadpool::managed::Object<Manager>;

/// Opens the connections of a pool.
pub(crate) struct Manager(Arc<Connector>);

impl deadpool::managed::Manager for Manager {
    type Type = Pooled<AsyncPgConnection>;
    type Error = NotConnected;

    async fn create(&self) -> Result<Self::Type, NotConnected> {
        self.0.connect_pooled().await
    }

    /// It is not asked whether it still works, because that would cost each use a round trip.
    async fn recycle(&self, pooled: &mut Self::Type, _: &Metrics) -> RecycleResult<NotConnected> {
        if std::thread::panicking() || pooled.is_broken() || !self.0.rotation().keeps(pooled, Instant::now()) {
            return Err(RecycleError::message("this connection is used no longer"));
        }
        pooled.used();
        Ok(())
    }
}

pub(super) fn pool(connector: Arc<Connector>, size: usize) -> StorageResult<Pool> {
    let limit = Some(connector.stopwatch().limit(CHECKOUT_LIMIT));
    Pool::builder(Manager(connector))
        .max_size(size)
        // Last in, first out, because a server process that was used a moment ago has warm caches.
        .queue_mode(QueueMode::Lifo)
        .runtime(deadpool::Runtime::Tokio1)
        .wait_timeout(limit)
        .create_timeout(limit)
        .build()
        .map_err(|error| StorageError::Config(error.to_string()))
}

/// The server's own error text, without the pool's.
pub(super) fn no_connection(error: PoolError<NotConnected>) -> StorageError {
    let seconds = CHECKOUT_LIMIT.as_secs();
    let problem = match error {
        PoolError::Backend(problem) => return problem.into(),
        PoolError::Timeout(TimeoutType::Create) => {
            format!("opening a connection took longer than {seconds} s{NO_ANSWER}")
        }
        PoolError::Timeout(TimeoutType::Wait) => all_in_use(),
        error => return unavailable(error),
    };
    unavailable(std::io::Error::new(std::io::ErrorKind::TimedOut, problem))
}

fn all_in_use() -> String {
    format!(
        "for {} s all connections were in use or being opened; look for a server that does not answer, and for statements that wait \
         for locks. If transactional handlers use the connections, give these more with --connections",
        CHECKOUT_LIMIT.as_secs()
    )
}

/// The same for the pool of blocking handlers. After its own words, its error has those of the connection that could
/// not be opened, if one could not.
#[cfg(feature = "postgres-sync")]
pub(super) fn no_blocking_connection(error: &diesel::r2d2::PoolError) -> StorageError {
    let problem = match error.to_string().split_once(": ") {
        Some((_, problem)) => {
            format!("no connection could be opened within {} s: {problem}", CHECKOUT_LIMIT.as_secs())
        }
        None => all_in_use(),
    };
    unavailable(std::io::Error::new(std::io::ErrorKind::TimedOut, problem))
}

impl PgStorage {
    /// What applies to the whole database. If the server takes no writes, the URL may lead to another one by now. Only
    /// a pooler keeps a connection open while its server becomes a standby.
    pub(super) async fn installation(&self) -> StorageResult<Installation> {
        let generation = self.connector.rotation().generation();
        let installation = run!(self, "installation", conn => installation::installation(conn))?;
        if installation.standby && self.connector.expects_primary() {
            self.connector.rotation().end(generation);
        }
        Ok(installation)
    }

    /// Closes the idle connections that are used no longer, in every pool. If the server has refused a connection
    /// because there are too many, closes all idle ones, so that the pools do not keep each other from connecting. The
    /// worker's own statements call this again and again.
    pub(super) fn sweep(&self) {
        let (rotation, now) = (self.connector.rotation(), Instant::now());
        if rotation.were_connections_short() {
            self.own.retain(|_, _| false);
            self.handlers.retain(|_, _| false);
            #[cfg(feature = "postgres-sync")]
            while let Some(mut conn) = self.blocking.try_get() {
                conn.abandon();
            }
            return;
        }
        if !rotation.is_sweep_due(now) {
            return;
        }
        self.own.retain(|pooled, _| rotation.keeps(pooled, now));
        self.handlers.retain(|pooled, _| rotation.keeps(pooled, now));
        // This pool looks at connections only before it hands one out. It closes those that it passes over.
        #[cfg(feature = "postgres-sync")]
        drop(self.blocking.try_get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_too_long_is_said_without_the_words_of_the_pool() {
        let said = |timeout| no_connection(PoolError::Timeout(timeout)).to_string();
        let (create, wait) = (said(TimeoutType::Create), said(TimeoutType::Wait));
        assert!(create.contains("opening a connection took longer than 10 s; check that the server is up"), "{create}");
        assert!(
            wait.contains("all connections were in use or being opened; ") && wait.contains("--connections"),
            "{wait}"
        );
        assert!(!(create + &wait).contains("object"));
    }

    #[cfg(feature = "postgres-sync")]
    #[tokio::test]
    async fn blocking_handlers_hear_the_same_without_the_words_of_their_pool() {
        let said = |url: &str| {
            let connector = Arc::new(Connector::from_url(url).unwrap());
            let pool = crate::pg::transact::blocking_pool(connector, 1);
            let soon = std::time::Duration::from_millis(100);
            move || {
                let _used = pool.get_timeout(std::time::Duration::from_secs(120));
                no_blocking_connection(&pool.get_timeout(soon).err().unwrap()).to_string()
            }
        };
        let url = crate::pg::tests::url("postgres");
        let busy = tokio::task::spawn_blocking(said(&url)).await.unwrap();
        assert!(
            busy.contains("all connections were in use or being opened; ") && busy.contains("--connections"),
            "{busy}"
        );
        // Nobody listens on this port, and no connection is free at any time.
        let nobody = Arc::new(Connector::from_url("postgres://127.0.0.1:1/postgres").unwrap());
        let pool = crate::pg::transact::blocking_pool(nobody, 1);
        let refused = move || {
            let refused = loop {
                let error = pool.get_timeout(std::time::Duration::from_millis(100)).err().unwrap();
                // The pool has the reason once the first attempt has failed.
                if error.to_string().contains(": ") {
                    break error;
                }
            };
            no_blocking_connection(&refused).to_string()
        };
        let refused = tokio::task::spawn_blocking(refused).await.unwrap();
        assert!(
            refused.contains("no connection could be opened within 10 s: ") && refused.contains("refused"),
            "{refused}"
        );
        for said in [busy, refused] {
            assert!(!said.contains("timed out waiting"), "{said}");
        }
    }
}
