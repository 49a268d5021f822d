//! Opens the database of a URL.

use std::path::PathBuf;

use diesel_jobs_core::storage::StorageResult;

use crate::backend::Backend;
use crate::database::Database;
use crate::stopwatch::Stopwatch;

impl Database {
    /// Opens the database of a URL. On PostgreSQL, `handlers` is the largest number of connections that transactional
    /// handlers use at the same time. Connections are opened later: if the server cannot be reached, the first
    /// operation fails. On SQLite, `handlers` has no effect, and the file is opened at once.
    ///
    /// This is the short form of [`Database::builder`], which also reads the URL from a file and asks for credentials.
    pub async fn open(url: &str, handlers: usize) -> StorageResult<Self> {
        Self::open_with(url, handlers, Stopwatch::Runs).await
    }

    /// The SQLite file of a URL, if it does not exist, so that [`open`](Self::open) would create it.
    pub fn missing_file(url: &str) -> Option<PathBuf> {
        match Backend::of(url) {
            #[cfg(feature = "sqlite")]
            Ok(Backend::Sqlite) => crate::sqlite::missing_file(url),
            _ => None,
        }
    }

    /// For tests. See [`Stopwatch`].
    #[doc(hidden)]
    pub async fn open_with(url: &str, handlers: usize, stopwatch: Stopwatch) -> StorageResult<Self> {
        Self::builder(url).handlers(handlers).timed_by(stopwatch).open().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_runtime_an_error_says_what_to_write() {
        for url in ["postgres://localhost/app", "sqlite://jobs.db"] {
            let opened = futures_util::FutureExt::now_or_never(Database::open(url, 1)).unwrap();
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("no tokio runtime") && error.contains("#[tokio::main]"), "{error}");
        }
    }
}
