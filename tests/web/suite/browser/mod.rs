//! The dashboard in a real browser: with scripts and without, light and dark, on a phone. No violation of the policy,
//! and nothing serious that axe-core finds.

pub(crate) mod driver;
mod flows;
mod looks;

use axum::Router;
use diesel_jobs_web::Rights;
use support::Db;
use tokio::net::TcpListener;

use crate::client::{PREFIX, dashboard};
use crate::jobs::registry;

/// Serves the dashboard of a database, with all rights, and returns its address.
pub(crate) async fn serve(db: &Db) -> String {
    let rights = |_: &axum::http::request::Parts| std::future::ready(Rights::everything("ada"));
    let dashboard = dashboard(db.database().clone(), registry()).rights(rights);
    let router = Router::new().nest_service(PREFIX, dashboard.router());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's runtime.
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}{PREFIX}")
}
