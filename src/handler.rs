//! Handlers in detail: the traits for a handler that is written by hand, and the layers around handlers. `#[job]` on a
//! function needs nothing from this module.
//!
//! A type with `#[derive(Job)]` implements one of the `Handle..` traits, depending on the options in its `#[job(..)]`:
//!
//! | in `#[job(..)]` | trait |
//! |---|---|
//! | nothing | [`Handle`] |
//! | `blocking = true` | [`HandleBlocking`] |
//! | `connection = C` | [`HandleIn`] |
//! | `blocking = true`, `connection = C` | [`HandleBlockingIn`] |
//! | `batch(max = 100)` | [`HandleBatch`] |
//! | `batch(max = 100)`, `connection = C` | [`HandleBatchIn`] |
//! | `blocking = true`, `batch(max = 100)`, `connection = C` | [`HandleBlockingBatchIn`] |
//!
//! ```
//! use diesel_jobs::handler::{Handle, Handled};
//! use diesel_jobs::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(queue = "mail")]
//! struct SendWelcome {
//!     #[serde(alias = "id")]
//!     user_id: i64,
//! }
//!
//! impl Handle for SendWelcome {
//!     async fn handle(self, ctx: JobContext) -> Handled {
//!         println!("{} to {}", ctx.kind(), self.user_id);
//!         Ok(Outcome::Complete)
//!     }
//! }
//! ```
//!
//! A [`Layer`] is code that a worker calls before and after its handlers. [`TestContext`] makes the context of an
//! attempt, for a test that calls a handler or a layer.

pub use diesel_jobs_core::{
    Backoff, BatchContext, BatchHandled, Discarded, FailureKind, Handle, HandleBatch, HandleBatchIn, HandleBlocking,
    HandleBlockingBatchIn, HandleBlockingIn, HandleIn, Handled, JobOptions, JobOutput, Layer, Lease, Output,
    Registered, ResultExt, Retain, States, TestContext, TypeKey,
};
pub use diesel_jobs_storage::{CompleteError, CompleteIn};
