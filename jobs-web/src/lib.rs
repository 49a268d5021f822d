//! The dashboard of `diesel-jobs`: an axum [`Router`](axum::Router) that shows what happens to jobs, and acts on them.
//!
//! The pages are rendered by the server and work without JavaScript. They load nothing from elsewhere. The router is closed: without
//! [rights](Rights) it answers nothing, and rights are read-only unless they say more.
//!
//! ```no_run
//! use axum::Router;
//! use diesel_jobs_storage::Database; // diesel_jobs::Database
//! use diesel_jobs_web::{Dashboard, Rights};
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::open("postgres://localhost/app", 0).await?;
//! let dashboard = Dashboard::new(database)
//!     .at("/admin/jobs")
//!     // Here your application looks at its own session.
//!     .rights(|request| {
//!         let operator = request.headers.get("x-operator").and_then(|name| name.to_str().ok()).map(str::to_owned);
//!         async move { operator.map_or_else(Rights::none, Rights::read_only) }
//!     });
//! let app: Router = Router::new().nest_service("/admin/jobs", dashboard.router());
//! # Ok(())
//! # }
//! ```

/// The README's code is compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod act;
mod assets;
mod background;
mod chart;
mod checkup;
mod confirm;
mod dashboard;
mod failure;
mod filter;
mod format;
mod guard;
mod history;
mod link;
mod live;
mod names;
mod pages;
mod redact;
mod rights;
mod routes;
mod sample;
mod shell;
mod site;

pub use dashboard::Dashboard;
pub use redact::{Part, Subject};
pub use rights::{Action, Rights};
#[doc(hidden)]
pub use routes::routes;
