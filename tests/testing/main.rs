//! The testing kit, on every type of connection that can enqueue.
//!
//! The tests for PostgreSQL need a server of their own: run them with `cargo xtask test`.
#![cfg(all(feature = "testing", feature = "postgres-sync", feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod attribute;
mod batches;
mod compared;
mod crashes;
mod database;
mod each;
mod env_file;
#[macro_use]
mod given_up;
mod guide;
mod jobs;
mod keys;
mod layers;
mod loaded;
#[path = "../page/mod.rs"]
mod page;
mod pools;
mod rows;
mod stuck;
mod suite;
mod takes;
mod test_database;
#[cfg(all(feature = "eyre", feature = "jiff", feature = "time"))]
mod types;
mod versions;
