//! Shared by the tests of the example applications: real processes, an HTTP client, and waiting with a limit.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by panicking")]

mod client;
mod migrations;
mod process;
mod wait;

pub use client::Client;
pub use hyper::StatusCode;
pub use migrations::assert_copies_are_current;
pub use process::{Process, findings};
pub use wait::{LIMIT, try_until, until};
