//! The worker's runtime: what becomes of jobs, whatever their handlers, their workers and their database do.
//!
//! PostgreSQL's tests need a server of their own: run them with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod completing_in;
mod context;
mod crashes;
mod decoding;
mod order;
mod outcomes;
mod panics;
mod shutdown;
mod timeouts;
mod transactional;
