//! The adapters for monitoring systems, with their real exporters and a receiver of our own.
//!
//! PostgreSQL's tests need a server of their own: run them with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod metrics_crate;
mod otlp;
mod tracing_through;
