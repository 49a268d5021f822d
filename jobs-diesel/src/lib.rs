//! The Diesel side of `diesel-jobs`. Depend on the crate `diesel-jobs`, which re-exports what applications need.

mod backend;
#[doc(hidden)]
pub mod bench;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod bounded;
mod change;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod changed_schedule;
#[cfg(any(feature = "sqlite", feature = "postgres-sync"))]
mod commit_decision;
mod connection;
mod connection_future;
mod credentials;
mod database;
mod database_builder;
mod enqueue;
mod enqueue_connection;
mod enqueue_each;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod enqueued_by_operator;
#[cfg(feature = "env-file")]
#[doc(hidden)]
pub mod env_file;
mod error;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod flags;
mod job_change;
mod job_view;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod kind_stats;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod ledger;
mod meaning;
pub mod migrations;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod native;
mod open;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod operation;
mod output;
#[cfg(feature = "postgres")]
pub mod pg;
mod row;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod schedule_checks;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stopwatch;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod stored_history;
mod stored_output;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod stored_progress;
#[cfg(all(feature = "testing", any(feature = "postgres", feature = "sqlite")))]
pub mod testing;
mod url_source;

pub use backend::Backend;
pub use change::Change;
pub use connection::{AsyncJobConnection, BlockingJobConnection};
pub use connection_future::{BoxConnectionFuture, ConnectionFuture};
pub use credentials::Credentials;
pub use database::Database;
pub use database_builder::DatabaseBuilder;
#[doc(hidden)]
pub use diesel::associations::HasTable;
pub use enqueue::{CompleteIn, Enqueue, enqueue_all, migrate};
pub use enqueue_connection::{EnqueueConnection, TransactionConnection};
pub use enqueue_each::{ColumnArgument, EnqueueEach, InsertEach, IntoColumn, JobColumns};
pub use error::{CompleteError, EnqueueError, MigrateError};
pub use job_change::{ChangeError, JobChange};
pub use output::output;
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use pg::migrate::up as apply_migrations;
#[doc(hidden)]
pub use row::{
    AnyLoader, Loadable, Loader, Loaders, NoLoader, NotThroughAsyncPg, NotThroughPg, NotThroughSqlite, ThroughAsyncPg,
    ThroughPg, ThroughSqlite, in_common, loaders,
};
pub use row::{
    AsyncLoadRow, AsyncTakeRow, Gone, Key, LoadRow, OwnedKey, Ref, Row, RowLock, Take, TakeRow, found, found_or_none,
    taken,
};
#[doc(hidden)]
pub use stopwatch::Stopwatch;
pub use stored_output::OutputError;
#[doc(hidden)]
pub use url_source::{may_hold_a_password, percent_decoded, read_url_file, without_mark};
