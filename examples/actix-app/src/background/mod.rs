//! The desk's background jobs.

mod assign;
mod close_stale;

pub use assign::{Assign, assign};
pub use close_stale::{CloseStale, close_stale};
