//! A help desk: people open tickets over HTTP, and background jobs assign and close them.
//!
//! A ticket and its job are written in one transaction; see [`open_ticket`]. `src/bin/desk.rs` is the web server, which
//! can also run the jobs. `src/bin/desk-worker.rs` is a worker of its own.

pub mod background;
mod error;
mod pool;
#[allow(missing_docs, reason = "Diesel writes it")]
pub mod schema;
mod ticket;
mod web;
mod worker;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use error::DeskError;
pub use pool::{Pool, connect};
pub use ticket::{MOST_OPEN, NewTicket, Ticket, open_ticket};
pub use web::routes;
pub use worker::run_worker;

/// The desk's migrations. Those of its jobs are in the library, and `desk-migrate` applies both.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");
