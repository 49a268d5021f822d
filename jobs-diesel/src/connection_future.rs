//! The future that the operations on an async connection return.

use std::pin::Pin;

/// What an operation on an async connection returns. If you forget the `.await`, the compiler warns.
#[must_use = "without `.await`, nothing reaches the database: no job is enqueued, changed, read or checked"]
pub trait ConnectionFuture: Future {}

impl<F: Future> ConnectionFuture for F {}

/// A [`ConnectionFuture`] in a box.
pub type BoxConnectionFuture<'c, T> = Pin<Box<dyn ConnectionFuture<Output = T> + Send + 'c>>;
