//! From a URL to a storage.

use std::fmt;
use std::sync::Arc;

use jobs_core::StorageError;
use jobs_core::storage::{Operator, Storage, StorageResult};

use crate::migrations::Migrator;

/// Where jobs are kept if `DATABASE_URL` says nothing: a SQLite file in the working directory.
pub const DEFAULT_URL: &str = "sqlite://jobs.db";

/// A database opened for a worker: the port to run jobs, the verbs for people, the schema.
#[derive(Clone)]
pub struct Database {
    /// What the worker needs.
    pub storage: Arc<dyn Storage>,
    /// What people need.
    pub operator: Arc<dyn Operator>,
    /// The schema.
    pub migrator: Arc<dyn Migrator>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.storage.name()).finish_non_exhaustive()
    }
}

/// The databases there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Backend {
    /// Which database a URL means.
    ///
    /// ```
    /// # use jobs_diesel::Backend;
    /// assert_eq!(Backend::of("postgres://localhost/app").unwrap(), Backend::Postgres);
    /// assert_eq!(Backend::of("sqlite://jobs.db").unwrap(), Backend::Sqlite);
    /// assert!(Backend::of("mysql://localhost/app").is_err());
    /// ```
    pub fn of(url: &str) -> StorageResult<Self> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            Some("sqlite") => Ok(Self::Sqlite),
            // The URL may hold a password: only its scheme is repeated, and only if it surely is one.
            scheme => Err(StorageError::Config(format!(
                "DATABASE_URL: {} is not a database `jobs` knows; write postgres://user@host/name or sqlite://path/to/file.db",
                scheme
                    .filter(|scheme| url[scheme.len()..].starts_with("://")
                        && scheme.chars().all(|c| c.is_ascii_alphanumeric()))
                    .map_or_else(|| "a URL without a scheme".to_owned(), |scheme| format!("scheme {scheme:?}"))
            ))),
        }
    }

    /// The answer of a program that lacks this database's feature.
    #[allow(dead_code)] // used when a feature is off
    pub(crate) fn not_built_in(self) -> StorageError {
        StorageError::Config(format!(
            "this program was built without {self:?} support; add the feature `{}` of `jobs`",
            format!("{self:?}").to_lowercase()
        ))
    }
}

impl Database {
    /// Opens the database behind a URL. `handlers` bounds the connections that transactional handlers use at once.
    /// Connects lazily: a server that is away is the first verb's error.
    pub async fn open(url: &str, handlers: usize) -> StorageResult<Self> {
        match Backend::of(url)? {
            #[cfg(feature = "postgres")]
            Backend::Postgres => crate::pg::open(url, handlers).await,
            #[cfg(feature = "sqlite")]
            Backend::Sqlite => crate::sqlite::open(url, handlers).await,
            #[allow(unreachable_patterns)] // reachable when a feature is off
            backend => {
                let _ = handlers;
                Err(backend.not_built_in())
            }
        }
    }
}
