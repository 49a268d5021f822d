//! The dashboard of `diesel-jobs`: an axum [`Router`](axum::Router) that shows what happens to jobs, and acts on them.
//!
//! The pages are rendered by the server and work without JavaScript. They load nothing from elsewhere. Without
//! [rights](Rights) it refuses every request, and rights are read-only unless they allow actions.
//!
//! ```no_run
//! use axum::Router;
//! # use diesel_jobs_storage as diesel_jobs;
//! use diesel_jobs::Database;
//! use diesel_jobs_web::{Dashboard, Rights};
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::open("postgres://localhost/app", 0).await?;
//! let dashboard = Dashboard::new(database)
//!     .at("/admin/jobs")
//!     // Here your application checks its own session.
//!     .rights(|request| {
//!         let operator = request.headers.get("x-operator").and_then(|name| name.to_str().ok()).map(str::to_owned);
//!         async move { operator.map_or_else(Rights::none, Rights::read_only) }
//!     });
//! let app: Router = Router::new().nest_service("/admin/jobs", dashboard.router());
//! # Ok(())
//! # }
//! ```

mod act;
mod around;
mod assets;
mod background;
mod changes;
mod chart;
mod confirm;
mod dashboard;
mod doctor_report;
mod failure;
mod field;
mod figure;
mod filter;
mod finding;
mod format;
mod guard;
mod history;
mod known;
mod link;
mod live;
mod names;
mod pages;
mod queue;
mod reason;
mod redact;
mod rights;
mod routes;
mod sample;
mod sentence;
mod shell;
mod site;

pub use dashboard::Dashboard;
#[doc(hidden)]
pub use guard::is_ancestor as is_frame_ancestor;
pub use redact::{Part, Subject};
pub use rights::{Action, Rights};
#[doc(hidden)]
pub use routes::routes;
