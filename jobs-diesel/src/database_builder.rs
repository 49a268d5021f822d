//! Opens the database of a URL, which may be in a file, with credentials that may change.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diesel_jobs_core::storage::StorageResult;
use diesel_jobs_core::{NoRuntime, StorageError};

use crate::backend::Backend;
use crate::credentials::{AskCredentials, Credentials};
use crate::database::Database;
use crate::stopwatch::Stopwatch;
use crate::url_source::{UrlSource, without_mark};

/// The shortest lifetime of a connection. With a shorter one a process would hardly do anything but connect.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);

/// Opens a [`Database`] with more than a URL. See [`Database::builder`].
#[must_use = "nothing is opened before `open`"]
pub struct DatabaseBuilder {
    url: UrlSource,
    handlers: usize,
    max_lifetime: Option<Duration>,
    credentials: Option<AskCredentials>,
    stopwatch: Stopwatch,
}

impl Database {
    /// Returns a builder for the database of this URL.
    pub fn builder(url: impl Into<String>) -> DatabaseBuilder {
        let url: String = url.into();
        DatabaseBuilder::new(UrlSource::Text(without_mark(&url).to_owned()))
    }

    /// Returns a builder for the database whose URL is in this file, such as a secret that Docker or Kubernetes mounts.
    /// On PostgreSQL, the file is read again for each new connection. So a changed password needs no restart. If the
    /// file cannot be read or is empty, [`open`](DatabaseBuilder::open) fails, and later the new connection. Open
    /// connections continue to work.
    pub fn builder_with_url_file(path: impl Into<PathBuf>) -> DatabaseBuilder {
        DatabaseBuilder::new(UrlSource::File(path.into()))
    }
}

impl DatabaseBuilder {
    fn new(url: UrlSource) -> Self {
        Self { url, handlers: 1, max_lifetime: None, credentials: None, stopwatch: Stopwatch::Runs }
    }

    /// Sets the largest number of connections that transactional handlers use at the same time on PostgreSQL. Default:
    /// 1. On SQLite it has no effect.
    pub fn handlers(mut self, connections: usize) -> Self {
        self.handlers = connections;
        self
    }

    /// Sets the age at which connections to PostgreSQL are closed, at least one second. Default: 30 minutes. Each
    /// connection has its own age, between four fifths of this and all of it, so that those that were opened together
    /// are not closed together. A connection that is in use is closed when it is given back. A shorter lifetime than
    /// that of a pooler, a proxy or a firewall between keeps these from closing connections first. On SQLite it has no
    /// effect.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.max_lifetime = Some(lifetime);
        self
    }

    /// Sets a function that returns the credentials of each new connection. They replace those of the URL. It is meant
    /// for tokens that are valid for minutes, and for passwords that change while a worker runs. Open connections
    /// continue to work, as long as the server lets them.
    ///
    /// The function may block, and may use the runtime: `Handle::current().block_on(..)`. It should answer within a few
    /// seconds, because a new connection waits for it for at most 10 s, and keep a token as long as the token is valid,
    /// because a worker that starts opens several connections at once. An error is an error of the new connection, and
    /// its text appears in the log.
    ///
    /// ```no_run
    /// use diesel_jobs_storage::{Credentials, Database};
    ///
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = Database::builder("postgres://app@db.example.com/app?sslmode=require")
    ///     .handlers(8)
    ///     .credentials(|| std::fs::read_to_string("/run/token").map(|token| Credentials::password(token.trim())))
    ///     .open()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials<E>(mut self, ask: impl Fn() -> Result<Credentials, E> + Send + Sync + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.credentials = Some(Arc::new(move || ask().map_err(Into::into)));
        self
    }

    /// For tests. See [`Stopwatch`].
    #[doc(hidden)]
    pub fn timed_by(mut self, stopwatch: Stopwatch) -> Self {
        self.stopwatch = stopwatch;
        self
    }

    /// Opens the database. On PostgreSQL, connections are opened later: if the server cannot be reached, the first
    /// operation fails. On SQLite, the file is opened at once.
    ///
    /// # Errors
    ///
    /// [`StorageError::Config`] if the URL cannot be read or is not understood, if `max_lifetime` is shorter than a
    /// second, or if credentials are set for SQLite.
    pub async fn open(self) -> StorageResult<Database> {
        NoRuntime::check()?;
        let Self { url, handlers, max_lifetime, credentials, stopwatch } = self;
        if let Some(short) = max_lifetime.filter(|lifetime| *lifetime < SHORTEST_LIFETIME) {
            return Err(StorageError::Config(format!(
                "a lifetime of {short:?} is too short for a connection (`max_lifetime`); use at least 1s"
            )));
        }
        let text = url.read()?;
        match Backend::of(&text)? {
            #[cfg(feature = "postgres")]
            Backend::Postgres => crate::pg::open(url, credentials, handlers, max_lifetime, stopwatch),
            Backend::Sqlite if credentials.is_some() => Err(StorageError::Config(
                "the database URL means a SQLite file, which has no credentials; remove `credentials` from the builder"
                    .to_owned(),
            )),
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => crate::sqlite::open(&text, stopwatch).await,
            #[allow(unreachable_patterns)] // reachable when a feature is off
            backend => {
                let _ = (handlers, max_lifetime, stopwatch);
                Err(backend.not_built_in())
            }
        }
    }
}

impl fmt::Debug for DatabaseBuilder {
    // The URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseBuilder").field("handlers", &self.handlers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lifetime_with_which_a_process_would_do_nothing_but_connect_is_refused() {
        let open = |lifetime| Database::builder("postgres://localhost/app").max_lifetime(lifetime).open();
        assert!(open(SHORTEST_LIFETIME).await.is_ok());
        let error = open(Duration::from_millis(999)).await.unwrap_err().to_string();
        assert!(error.contains("999ms is too short") && error.contains("at least 1s"), "{error}");
    }
}
