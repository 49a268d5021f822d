//! The shop, tested with its real binaries on a real PostgreSQL. Run these tests with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by panicking")]

mod end_to_end;
mod migrations;
mod report;
mod schema;
mod support;
mod web;
