//! The routes: one file each.

mod admin_jobs;
mod error;
mod health;
mod place_order;
mod show_order;

use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};

use crate::pool::Pool;

pub use admin_jobs::{ADMIN_JOBS, Operators, admin_jobs};

/// The state that the routes share.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a pool has none worth reading")]
pub struct App {
    /// Connections to the shop's database.
    pub pool: Pool,
    /// How long after an order its customer is asked for a review.
    pub review_after: Duration,
}

/// Returns the routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/orders", post(place_order::place_order))
        .route("/orders/{id}", get(show_order::show_order))
        .with_state(app)
}
