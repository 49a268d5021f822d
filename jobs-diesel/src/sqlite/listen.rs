//! `listen`: SQLite tells nobody about a commit, but a connection can ask, cheaply, whether there was one.

use std::sync::Arc;
use std::time::Duration;

use diesel::SqliteConnection;
use jobs_core::storage::StorageResult;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::error::storage_error;
use crate::sqlite::connect::connect;
use crate::sqlite::queries::data_version::data_version;

/// How often it asks: a look takes microseconds.
const LOOK: Duration = Duration::from_millis(25);
/// How long it waits before it opens the file again after a failure.
const RECONNECT: Duration = Duration::from_secs(1);

/// Notifies `wake` after each commit of anybody else, until `stop`.
pub(super) async fn listen(file: Arc<str>, wake: Arc<Notify>, stop: CancellationToken) {
    let watching = async {
        loop {
            if let Err(error) = watch(file.clone(), &wake).await {
                tracing::debug!(%error, "listening for commits failed, opening the SQLite file again");
            }
            tokio::time::sleep(RECONNECT).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = watching => {}
    }
}

/// Ends only with an error. A connection of its own, because one's own commits are never news to a connection.
async fn watch(file: Arc<str>, wake: &Notify) -> StorageResult<()> {
    let mut conn = blocking(move || connect(&file)).await?;
    let mut seen = None;
    loop {
        let (back, version) = blocking(move || look(conn)).await?;
        conn = back;
        if seen != Some(version) {
            // Also at the first look: something may have been committed before it.
            wake.notify_one();
            seen = Some(version);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn look(mut conn: SqliteConnection) -> StorageResult<(SqliteConnection, i32)> {
    let version = data_version(&mut conn).map_err(storage_error)?;
    Ok((conn, version))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> StorageResult<T> + Send + 'static) -> StorageResult<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(jobs_core::StorageError::Unavailable(Box::new(error))))
}
