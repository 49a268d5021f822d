//! The help desk, tested on a real PostgreSQL: its routes and jobs inside a test transaction, and its real binaries.
//! Run these tests with `cargo xtask test`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by panicking")]

mod background;
mod database;
mod end_to_end;
mod migrations;
mod web;
