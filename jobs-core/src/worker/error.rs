//! The errors with which a worker does not start, or ends by itself.

use crate::error::NoRuntime;
use crate::registry::RegistryError;
use crate::storage_error::StorageError;

/// Why a worker did not start, or has ended by itself.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The registered jobs cannot be run.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// No Tokio runtime is running.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// A setting is out of bounds.
    #[error("{0}")]
    Setting(String),
    /// The database cannot be reached, or it is not ready. [`StorageError::Credentials`] also ends a worker that runs,
    /// after the server has refused the credentials of every new connection for five minutes.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The operating system refused to start the heartbeat's thread.
    #[error("could not start the heartbeat's thread: {0}")]
    Thread(std::io::Error),
    /// [`Worker::run_until_empty`](crate::Worker::run_until_empty) has begun more attempts than its limit allows.
    #[error(
        "{attempts} attempts were begun, and jobs still wait; does a job snooze, retry or enqueue itself forever? `limit` allows more"
    )]
    TooManyAttempts {
        /// How many were begun.
        attempts: u64,
    },
}

crate::debug_as_display!(WorkerError);
