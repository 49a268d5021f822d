//! The loading of rows for a handler that takes no connection: its input, and how it ended.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::any_connection::AnyConnection;
use crate::error::JobError;
use crate::handler::LoadedHandler;
use crate::lease::Lease;
use crate::outcome::Handled;
use crate::storage::Interruption;
use crate::storage_error::StorageError;

/// Loads the rows through a connection. Through a sync connection the future is ready at once. It may be called again,
/// on another connection.
pub type LoadingBody =
    Arc<dyn for<'c> Fn(AnyConnection<'c>) -> BoxFuture<'c, Result<LoadedHandler, Handled>> + Send + Sync>;

/// Rows that are to be loaded.
#[derive(Clone)]
pub struct Loading {
    /// The lease of the attempt.
    pub lease: Lease,
    /// What loads them.
    pub body: LoadingBody,
    /// How many they are. More than one are loaded from one snapshot of the database.
    pub rows: usize,
    /// Fires when the attempt must end now. Then the statement is cancelled and its connection closed.
    pub abort: CancellationToken,
}

/// How the loading ended. The connection is back in its pool, or closed.
/// Internal, and exhaustive, so that no code of ours misses a variant.
pub enum Loaded {
    /// The rows are there.
    Handler(LoadedHandler),
    /// The attempt ends without its handler: a row is gone, or its query failed.
    Ended(Handled),
    /// A conflict with another transaction. Nothing was read, and another try may succeed at once.
    Conflict {
        /// What the conflict was, with the database's code. The text holds no user data.
        what: &'static str,
        /// The error that the conflict caused.
        error: JobError,
    },
    /// `abort` fired.
    Aborted,
    /// The database ended every connection that was tried, and at least one of them while the rows were read.
    Interrupted(Interruption),
    /// There was no connection, or the database ended every connection that was tried before anything was read.
    NotLoaded(StorageError),
}
