//! The Diesel side of `diesel-jobs`. Depend on the crate `diesel-jobs`, which re-exports what applications need.

mod backend;
#[doc(hidden)]
pub mod bench;
#[cfg(any(feature = "sqlite", feature = "postgres-sync"))]
mod commit_decision;
mod connection;
mod database;
mod enqueue;
mod error;
mod executor;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod flags;
mod job_view;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod kind_stats;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod ledger;
pub mod migrations;
mod open;
#[cfg(feature = "postgres")]
pub mod pg;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(all(feature = "testing", any(feature = "postgres", feature = "sqlite")))]
pub mod testing;

pub use backend::Backend;
pub use connection::{AsyncJobConnection, BlockingJobConnection};
pub use database::Database;
pub use enqueue::{CompleteIn, Enqueue, enqueue_all, migrate};
pub use error::{CompleteError, EnqueueError, MigrateError};
pub use executor::Executor;
