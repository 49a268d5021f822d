//! A lending library: readers borrow and return books over HTTP, and background jobs write letters to them.
//!
//! A loan and its job are written in one transaction; see [`lend`]. `src/bin/library.rs` is the web server, which can
//! also run the jobs. `src/bin/library-worker.rs` is a worker of its own.

pub mod background;
mod error;
mod loan;
mod page;
mod pool;
#[allow(missing_docs, reason = "Diesel writes it")]
pub mod schema;
mod web;
mod worker;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use error::LibraryError;
pub use loan::{NewLoan, give_back, lend};
pub use pool::{Pool, connect};
pub use web::library;
pub use worker::run_worker;

/// The library's migrations. Those of its jobs are in `diesel-jobs`, and `library-migrate` applies both.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");
