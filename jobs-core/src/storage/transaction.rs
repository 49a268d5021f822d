//! A transactional attempt: what it is given, and how it ended.

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

/// What a handler's body does with the connection of its transaction. It may be called again, in another transaction.
#[derive(Clone)]
pub enum Body {
    /// Runs on the runtime.
    Async(AsyncBody),
    /// Runs on the blocking pool.
    Blocking(BlockingBody),
}

/// A transactional attempt: which connection, which lease, what to run.
#[derive(Clone)]
pub struct Transaction {
    /// The connection type the handler asked for; one the storage provides.
    pub connection: TypeId,
    /// The lease the commit depends on.
    pub lease: Lease,
    /// The handler and the decision on its answer.
    pub body: Body,
    /// Fires when the attempt must end now: the transaction is given up, its statement cancelled, its connection closed.
    pub abort: CancellationToken,
}

/// How a transactional attempt ended.
#[derive(Debug)]
pub enum Transacted {
    /// Effects and transition are committed together.
    Committed(Transition),
    /// The lease was gone: everything is rolled back.
    LeaseLost,
    /// The handler failed: everything is rolled back, the lease still stands.
    RolledBack(JobError),
    /// Another transaction was in the way (a serialization failure, a deadlock, a lock that was not to be had): everything is
    /// rolled back, the lease was not touched, and the same may succeed at once.
    Conflict {
        /// What it was, in words that hold no value of anybody's, with the database's code.
        what: &'static str,
        /// What failed because of it.
        error: JobError,
    },
    /// `abort` fired: everything is or will be rolled back.
    Aborted,
    /// There was no connection to begin with, or it did not begin; the handler was not called.
    NotBegun(StorageError),
    /// The database failed before or during the commit. The transaction may have been committed; a fenced finish tells.
    Unknown(StorageError),
}
