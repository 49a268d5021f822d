//! The shop, tested on a real PostgreSQL: its functions inside a test transaction, and its real binaries. Run these
//! tests with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by panicking")]

mod admin_jobs;
mod database;
mod end_to_end;
mod migrations;
mod order;
mod report;
mod schema;
mod web;
