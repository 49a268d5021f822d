//! A transactional attempt: its input, and how it ended.

use std::any::TypeId;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::error::JobError;
use crate::handler::AnyConnection;
use crate::lease::Lease;
use crate::outcome::Transition;
use crate::storage_error::StorageError;

/// A body that runs on the runtime.
pub type AsyncBody =
    Arc<dyn for<'c> Fn(AnyConnection<'c>) -> BoxFuture<'c, Result<Transition, JobError>> + Send + Sync>;

/// A body that runs on the blocking pool.
pub type BlockingBody = Arc<dyn for<'c> Fn(AnyConnection<'c>) -> Result<Transition, JobError> + Send + Sync>;

/// What a handler does with the connection of its transaction. It may be called again, in another transaction.
#[derive(Clone)]
pub enum Body {
    /// Runs on the runtime.
    Async(AsyncBody),
    /// Runs on the blocking pool.
    Blocking(BlockingBody),
}

/// A transactional attempt: the connection type, the lease and the handler.
#[derive(Clone)]
pub struct Transaction {
    /// The connection type that the handler asked for. It is one that the storage provides.
    pub connection: TypeId,
    /// The lease that the commit depends on.
    pub lease: Lease,
    /// The handler, and the decision on its outcome.
    pub body: Body,
    /// Fires when the attempt must end now. Then the transaction is given up, its statement cancelled and its
    /// connection closed.
    pub abort: CancellationToken,
}

/// How a transactional attempt ended.
#[derive(Debug)]
pub enum Transacted {
    /// The handler's writes and the transition are committed together.
    Committed(Transition),
    /// The lease was gone. Everything is rolled back.
    LeaseLost,
    /// The handler failed. Everything is rolled back, and the lease is still valid.
    RolledBack(JobError),
    /// A conflict with another transaction (a serialization failure, a deadlock, a lock that could not be taken).
    /// Everything is rolled back, the lease was not touched, and a new run may succeed at once.
    Conflict {
        /// What the conflict was, with the database's code. The text holds no user data.
        what: &'static str,
        /// The error that the conflict caused.
        error: JobError,
    },
    /// `abort` fired. Everything is or will be rolled back.
    Aborted,
    /// There was no connection, or the transaction did not begin. The handler was not called.
    NotBegun(StorageError),
    /// The database failed before or during the commit. The transaction may have been committed; a fenced finish finds
    /// out.
    Unknown(StorageError),
}
