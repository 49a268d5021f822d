//! The errors that keep a worker from starting.

use crate::error::NoRuntime;
use crate::registry::RegistryError;
use crate::storage_error::StorageError;

/// Why a worker did not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The registered jobs cannot be run.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// There is no runtime to drive the worker's futures.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// A setting is out of bounds.
    #[error("{0}")]
    Setting(String),
    /// The database is not reachable or not ready.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The operating system refused to start the heartbeat's thread.
    #[error("could not start the heartbeat's thread: {0}")]
    Thread(std::io::Error),
}

crate::debug_as_display!(WorkerError);
