//! The Diesel side of `jobs`. Depend on the crate `jobs`, which re-exports what applications need.

mod connection;

pub use connection::{AsyncJobConnection, BlockingJobConnection};
