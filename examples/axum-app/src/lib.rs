//! A small shop: a web server that takes orders, and the background jobs for them.
//!
//! An order, the credit that it uses and its jobs are written in one transaction of the web server; see
//! [`place_order`]. The jobs are in `background`, one per file. `src/bin/web.rs` serves the routes, and
//! `src/bin/worker.rs` runs the jobs.

pub mod background;
mod jobs_view;
mod mailer;
mod order;
mod pool;
#[allow(missing_docs, reason = "Diesel writes it")]
pub mod schema;
mod settings;
mod setup;
mod web;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use mailer::{Mailer, MailerError};
pub use order::{NewOrder, OrderError, place_order};
pub use pool::{Conn, Pool, connect};
pub use settings::{Settings, SettingsError, database_url};
pub use setup::setup_worker;
pub use web::{ADMIN_JOBS, App, Operators, admin_jobs, router};

/// The shop's migrations, and those of its jobs, which `worker migrations copy` copied to the same directory.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");
