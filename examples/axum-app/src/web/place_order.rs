//! `POST /orders`: places an order.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::json;

use super::App;
use super::error::WebError;
use crate::order::{self, NewOrder};

/// Returns 201 with the order's id. Returns 402 if the payment is refused; then there is neither an order nor a job.
pub(super) async fn place_order(
    State(app): State<App>,
    Json(order): Json<NewOrder>,
) -> Result<impl IntoResponse, WebError> {
    let mut conn = app.pool.get().await?;
    let id = order::place_order(&mut conn, &order, app.review_after).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/orders/{id}"))], Json(json!({ "id": id }))))
}
